// Nonblocking forms of Fortran, where its bindings call PMPI_X.
#include "lib/adapters/mpi/fortran.h"

#ifdef OPEN_MPI

using namespace tutti::mpi::fortran;

#define LIST(...) __VA_ARGS__
// The names in lower and in upper case, parameters and arguments before the request.
#define NONBLOCKING(lower, UPPER, parameters, arguments)               \
  EXPORT void mpi_i##lower##_(parameters, Int* request, Int* ierror) { \
    MPI_Request made{};                                                \
    const int code = MPI_I##lower(arguments, &made);                   \
    if (code == MPI_SUCCESS) *request = PMPI_Request_c2f(made);        \
    tell(ierror, code);                                                \
  }                                                                    \
  NAMES(mpi_i##lower, MPI_I##UPPER)

extern "C" {

NONBLOCKING(allreduce, ALLREDUCE,
            LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                 const Int* comm),
            LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)))

NONBLOCKING(reduce, REDUCE,
            LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                 const Int* root, const Int* comm),
            LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), *root,
                 comm_of(comm)))

NONBLOCKING(scan, SCAN,
            LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                 const Int* comm),
            LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)))

NONBLOCKING(exscan, EXSCAN,
            LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                 const Int* comm),
            LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)))

NONBLOCKING(reduce_scatter, REDUCE_SCATTER,
            LIST(void* send, void* recv, const Int* counts, const Int* type, const Int* op,
                 const Int* comm),
            LIST(buffer(send), buffer(recv), counts, type_of(type), op_of(op), comm_of(comm)))

NONBLOCKING(reduce_scatter_block, REDUCE_SCATTER_BLOCK,
            LIST(void* send, void* recv, const Int* count, const Int* type, const Int* op,
                 const Int* comm),
            LIST(buffer(send), buffer(recv), *count, type_of(type), op_of(op), comm_of(comm)))

NONBLOCKING(barrier, BARRIER, LIST(const Int* comm), LIST(comm_of(comm)))

NONBLOCKING(bcast, BCAST,
            LIST(void* data, const Int* count, const Int* type, const Int* root, const Int* comm),
            LIST(buffer(data), *count, type_of(type), *root, comm_of(comm)))

NONBLOCKING(allgather, ALLGATHER,
            LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                 const Int* recv_count, const Int* recv_type, const Int* comm),
            LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                 type_of(recv_type), comm_of(comm)))

NONBLOCKING(allgatherv, ALLGATHERV,
            LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                 const Int* counts, const Int* places, const Int* recv_type, const Int* comm),
            LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), counts, places,
                 type_of(recv_type), comm_of(comm)))

NONBLOCKING(gather, GATHER,
            LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                 const Int* recv_count, const Int* recv_type, const Int* root, const Int* comm),
            LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                 type_of(recv_type), *root, comm_of(comm)))

NONBLOCKING(gatherv, GATHERV,
            LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                 const Int* counts, const Int* places, const Int* recv_type, const Int* root,
                 const Int* comm),
            LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), counts, places,
                 type_of(recv_type), *root, comm_of(comm)))

NONBLOCKING(scatter, SCATTER,
            LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                 const Int* recv_count, const Int* recv_type, const Int* root, const Int* comm),
            LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                 type_of(recv_type), *root, comm_of(comm)))

NONBLOCKING(scatterv, SCATTERV,
            LIST(void* send, const Int* counts, const Int* places, const Int* send_type, void* recv,
                 const Int* recv_count, const Int* recv_type, const Int* root, const Int* comm),
            LIST(buffer(send), counts, places, type_of(send_type), buffer(recv), *recv_count,
                 type_of(recv_type), *root, comm_of(comm)))

NONBLOCKING(alltoall, ALLTOALL,
            LIST(void* send, const Int* send_count, const Int* send_type, void* recv,
                 const Int* recv_count, const Int* recv_type, const Int* comm),
            LIST(buffer(send), *send_count, type_of(send_type), buffer(recv), *recv_count,
                 type_of(recv_type), comm_of(comm)))

NONBLOCKING(alltoallv, ALLTOALLV,
            LIST(void* send, const Int* send_counts, const Int* send_places, const Int* send_type,
                 void* recv, const Int* recv_counts, const Int* recv_places, const Int* recv_type,
                 const Int* comm),
            LIST(buffer(send), send_counts, send_places, type_of(send_type), buffer(recv),
                 recv_counts, recv_places, type_of(recv_type), comm_of(comm)))

}  // extern "C"

#endif
