// MPI_X of C, in front of the host's, which are PMPI_X.
#include "lib/adapters/mpi/collectives.h"
#include "lib/adapters/mpi/freed.h"
#include "lib/adapters/mpi/in_use.h"

namespace mpi = tutti::mpi;

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT int MPI_Init(int* argc, char*** argv) {
  mpi::refuse_foreign_host();
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS) mpi::begin();
  return code;
}

EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  mpi::refuse_foreign_host();
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS) mpi::begin();
  return code;
}

EXPORT int MPI_Finalize(void) {
  mpi::bind_host();
  mpi::end();
  return PMPI_Finalize();
}

EXPORT int MPI_Comm_free(MPI_Comm* comm) {
  const mpi::BeingFreed freed(comm);
  return PMPI_Comm_free(comm);
}

EXPORT int MPI_Comm_disconnect(MPI_Comm* comm) {
  const mpi::BeingFreed freed(comm);
  return PMPI_Comm_disconnect(comm);
}

EXPORT int MPI_Type_free(MPI_Datatype* type) { return mpi::free_type(type); }

EXPORT int MPI_Op_free(MPI_Op* op) { return mpi::free_op(op); }

#ifndef OPEN_MPI
// MPICH's answers before it looks at its network. What others have completed before a barrier,
// which is not the host's here, it would say at the next call only.
EXPORT int MPI_Win_test(MPI_Win win, int* flag) {
  mpi::bind_host();
  const int code = PMPI_Win_test(win, flag);
  return code == MPI_SUCCESS && *flag == 0 ? PMPI_Win_test(win, flag) : code;
}
#endif

EXPORT int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
  return mpi::allreduce(send, recv, count, type, op, comm,
                        [&] { return PMPI_Allreduce(send, recv, count, type, op, comm); });
}

EXPORT int MPI_Reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                      int root, MPI_Comm comm) {
  return mpi::reduce(send, recv, count, type, op, root, comm,
                     [&] { return PMPI_Reduce(send, recv, count, type, op, root, comm); });
}

EXPORT int MPI_Scan(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm) {
  return mpi::scan(send, recv, count, type, op, comm,
                   [&] { return PMPI_Scan(send, recv, count, type, op, comm); });
}

EXPORT int MPI_Exscan(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                      MPI_Comm comm) {
  return mpi::exscan(send, recv, count, type, op, comm,
                     [&] { return PMPI_Exscan(send, recv, count, type, op, comm); });
}

EXPORT int MPI_Reduce_scatter_block(const void* send, void* recv, int count, MPI_Datatype type,
                                    MPI_Op op, MPI_Comm comm) {
  return mpi::reduce_scatter_block(send, recv, count, type, op, comm, [&] {
    return PMPI_Reduce_scatter_block(send, recv, count, type, op, comm);
  });
}

EXPORT int MPI_Reduce_scatter(const void* send, void* recv, const int counts[], MPI_Datatype type,
                              MPI_Op op, MPI_Comm comm) {
  return mpi::reduce_scatter(send, recv, counts, type, op, comm, [&] {
    return PMPI_Reduce_scatter(send, recv, counts, type, op, comm);
  });
}

EXPORT int MPI_Barrier(MPI_Comm comm) {
  return mpi::barrier(comm, [&] { return PMPI_Barrier(comm); });
}

EXPORT int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return mpi::bcast(buffer, count, type, root, comm,
                    [&] { return PMPI_Bcast(buffer, count, type, root, comm); });
}

EXPORT int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                         int recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  return mpi::allgather(send, send_count, send_type, recv, recv_count, recv_type, comm, [&] {
    return PMPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
  });
}

EXPORT int MPI_Gather(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                      int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return mpi::gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm, [&] {
    return PMPI_Gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
  });
}

EXPORT int MPI_Scatter(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                       int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return mpi::scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm, [&] {
    return PMPI_Scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
  });
}

EXPORT int MPI_Alltoall(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                        int recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  return mpi::alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm, [&] {
    return PMPI_Alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm);
  });
}

EXPORT int MPI_Allgatherv(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                          const int counts[], const int places[], MPI_Datatype recv_type,
                          MPI_Comm comm) {
  return mpi::allgatherv(send, send_count, send_type, recv, counts, places, recv_type, comm, [&] {
    return PMPI_Allgatherv(send, send_count, send_type, recv, counts, places, recv_type, comm);
  });
}

EXPORT int MPI_Gatherv(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                       const int counts[], const int places[], MPI_Datatype recv_type, int root,
                       MPI_Comm comm) {
  return mpi::gatherv(send, send_count, send_type, recv, counts, places, recv_type, root, comm,
                      [&] {
                        return PMPI_Gatherv(send, send_count, send_type, recv, counts, places,
                                            recv_type, root, comm);
                      });
}

EXPORT int MPI_Scatterv(const void* send, const int counts[], const int places[],
                        MPI_Datatype send_type, void* recv, int recv_count, MPI_Datatype recv_type,
                        int root, MPI_Comm comm) {
  return mpi::scatterv(send, counts, places, send_type, recv, recv_count, recv_type, root, comm,
                       [&] {
                         return PMPI_Scatterv(send, counts, places, send_type, recv, recv_count,
                                              recv_type, root, comm);
                       });
}

EXPORT int MPI_Alltoallv(const void* send, const int send_counts[], const int send_places[],
                         MPI_Datatype send_type, void* recv, const int recv_counts[],
                         const int recv_places[], MPI_Datatype recv_type, MPI_Comm comm) {
  return mpi::alltoallv(send, send_counts, send_places, send_type, recv, recv_counts, recv_places,
                        recv_type, comm, [&] {
                          return PMPI_Alltoallv(send, send_counts, send_places, send_type, recv,
                                                recv_counts, recv_places, recv_type, comm);
                        });
}

}  // extern "C"
