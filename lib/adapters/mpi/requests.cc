// Nonblocking and persistent forms: the host's, whose requests a program may mix with all others in
// one MPI_Waitall. They are counted.
#include "lib/adapters/mpi/collectives.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define LIST(...) __VA_ARGS__

// row(name in lower case, in MPI's, suffix, parameters before the request's or the info's,
// arguments). Count and Place are the types of counts and of displacements.
#define MOVES(row, suffix, Count, Place)                                                           \
  row(bcast, Bcast, suffix,                                                                        \
      LIST(void* buffer, Count n, MPI_Datatype type, int root, MPI_Comm comm),                     \
      LIST(buffer, n, type, root, comm))                                                           \
      row(allgather, Allgather, suffix,                                                            \
          LIST(const void* send, Count n, MPI_Datatype type, void* recv, Count recv_n,             \
               MPI_Datatype recv_type, MPI_Comm comm),                                             \
          LIST(send, n, type, recv, recv_n, recv_type, comm))                                      \
          row(allgatherv, Allgatherv, suffix,                                                      \
              LIST(const void* send, Count n, MPI_Datatype type, void* recv, const Count* recv_ns, \
                   const Place* places, MPI_Datatype recv_type, MPI_Comm comm),                    \
              LIST(send, n, type, recv, recv_ns, places, recv_type, comm))                         \
              row(gather, Gather, suffix,                                                          \
                  LIST(const void* send, Count n, MPI_Datatype type, void* recv, Count recv_n,     \
                       MPI_Datatype recv_type, int root, MPI_Comm comm),                           \
                  LIST(send, n, type, recv, recv_n, recv_type, root, comm))                        \
                  row(gatherv, Gatherv, suffix,                                                    \
                      LIST(const void* send, Count n, MPI_Datatype type, void* recv,               \
                           const Count* recv_ns, const Place* places, MPI_Datatype recv_type,      \
                           int root, MPI_Comm comm),                                               \
                      LIST(send, n, type, recv, recv_ns, places, recv_type, root, comm))           \
                      row(scatter, Scatter, suffix,                                                \
                          LIST(const void* send, Count n, MPI_Datatype type, void* recv,           \
                               Count recv_n, MPI_Datatype recv_type, int root, MPI_Comm comm),     \
                          LIST(send, n, type, recv, recv_n, recv_type, root, comm))                \
                          row(scatterv, Scatterv, suffix,                                          \
                              LIST(const void* send, const Count* ns, const Place* places,         \
                                   MPI_Datatype type, void* recv, Count recv_n,                    \
                                   MPI_Datatype recv_type, int root, MPI_Comm comm),               \
                              LIST(send, ns, places, type, recv, recv_n, recv_type, root, comm))   \
                              row(alltoall, Alltoall, suffix,                                      \
                                  LIST(const void* send, Count n, MPI_Datatype type, void* recv,   \
                                       Count recv_n, MPI_Datatype recv_type, MPI_Comm comm),       \
                                  LIST(send, n, type, recv, recv_n, recv_type, comm))              \
                                  row(alltoallv, Alltoallv, suffix,                                \
                                      LIST(const void* send, const Count* ns, const Place* places, \
                                           MPI_Datatype type, void* recv, const Count* recv_ns,    \
                                           const Place* recv_places, MPI_Datatype recv_type,       \
                                           MPI_Comm comm),                                         \
                                      LIST(send, ns, places, type, recv, recv_ns, recv_places,     \
                                           recv_type, comm))
#define REDUCTIONS(row, suffix, Count)                                                          \
  row(allreduce, Allreduce, suffix,                                                             \
      LIST(const void* send, void* recv, Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
      LIST(send, recv, n, type, op, comm))                                                      \
      row(reduce, Reduce, suffix,                                                               \
          LIST(const void* send, void* recv, Count n, MPI_Datatype type, MPI_Op op, int root,   \
               MPI_Comm comm),                                                                  \
          LIST(send, recv, n, type, op, root, comm))                                            \
          row(reduce_scatter, Reduce_scatter, suffix,                                           \
              LIST(const void* send, void* recv, const Count* ns, MPI_Datatype type, MPI_Op op, \
                   MPI_Comm comm),                                                              \
              LIST(send, recv, ns, type, op, comm))                                             \
              row(reduce_scatter_block, Reduce_scatter_block, suffix,                           \
                  LIST(const void* send, void* recv, Count n, MPI_Datatype type, MPI_Op op,     \
                       MPI_Comm comm),                                                          \
                  LIST(send, recv, n, type, op, comm))                                          \
                  row(scan, Scan, suffix,                                                       \
                      LIST(const void* send, void* recv, Count n, MPI_Datatype type, MPI_Op op, \
                           MPI_Comm comm),                                                      \
                      LIST(send, recv, n, type, op, comm))                                      \
                      row(exscan, Exscan, suffix,                                               \
                          LIST(const void* send, void* recv, Count n, MPI_Datatype type,        \
                               MPI_Op op, MPI_Comm comm),                                       \
                          LIST(send, recv, n, type, op, comm))

#define NONBLOCKING(lower, Name, suffix, parameters, arguments)                               \
  EXPORT int MPI_I##lower##suffix(parameters, MPI_Request* request) {                         \
    return tutti::mpi::by_host(tutti::mpi::comm_of(comm), tutti::mpi::Function::lower,        \
                               tutti::mpi::Why::nonblocking,                                  \
                               TUTTI_MPI_IF_THERE(MPI_I##lower##suffix, arguments, request)); \
  }
#define PREPARED(MPI, lower, Name, suffix, parameters, arguments)                            \
  EXPORT int MPI##_##Name##_init##suffix(parameters, MPI_Info info, MPI_Request* request) {  \
    return tutti::mpi::by_host(                                                              \
        tutti::mpi::comm_of(comm), tutti::mpi::Function::lower, tutti::mpi::Why::persistent, \
        TUTTI_MPI_IF_THERE(MPI##_##Name##_init##suffix, arguments, info, request));          \
  }
#define PERSISTENT(lower, Name, suffix, parameters, arguments) \
  PREPARED(MPI, lower, Name, suffix, LIST(parameters), LIST(arguments))
#define EXTENSION(lower, Name, suffix, parameters, arguments) \
  PREPARED(MPIX, lower, Name, suffix, LIST(parameters), LIST(arguments))

#define ALL(row, suffix, Count, Place) \
  MOVES(row, suffix, Count, Place)     \
  REDUCTIONS(row, suffix, Count)       \
  row(barrier, Barrier, suffix, LIST(MPI_Comm comm), LIST(comm))

ALL(NONBLOCKING, , int, int)

#ifdef OPEN_MPI
// Open MPI 5 has them, though it says that it is an MPI 3.1; 4.1 has them by names of its own.
#define DECLARED(lower, Name, suffix, parameters, arguments)                                   \
  extern "C" __attribute__((weak)) int PMPI_##Name##_init(parameters, MPI_Info, MPI_Request*); \
  extern "C" __attribute__((weak)) int PMPIX_##Name##_init(parameters, MPI_Info, MPI_Request*);
ALL(DECLARED, , int, int)
ALL(EXTENSION, , int, int)
#endif
#if MPI_VERSION >= 4 || defined(OPEN_MPI)
ALL(PERSISTENT, , int, int)
#endif

#if MPI_VERSION >= 4
MOVES(NONBLOCKING, _c, MPI_Count, MPI_Aint)
REDUCTIONS(NONBLOCKING, _c, MPI_Count)
MOVES(PERSISTENT, _c, MPI_Count, MPI_Aint)
REDUCTIONS(PERSISTENT, _c, MPI_Count)
#endif
