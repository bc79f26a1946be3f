// The forms of MPI 4 whose counts are MPI_Count. The host may be an older one of the same ABI.
#include "lib/adapters/mpi/collectives.h"

#if MPI_VERSION >= 4

namespace mpi = tutti::mpi;

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT int MPI_Allreduce_c(const void* send, void* recv, MPI_Count count, MPI_Datatype type,
                           MPI_Op op, MPI_Comm comm) {
  return mpi::allreduce(send, recv, count, type, op, comm,
                        TUTTI_MPI_IF_THERE(MPI_Allreduce_c, send, recv, count, type, op, comm));
}

EXPORT int MPI_Reduce_c(const void* send, void* recv, MPI_Count count, MPI_Datatype type, MPI_Op op,
                        int root, MPI_Comm comm) {
  return mpi::reduce(send, recv, count, type, op, root, comm,
                     TUTTI_MPI_IF_THERE(MPI_Reduce_c, send, recv, count, type, op, root, comm));
}

EXPORT int MPI_Scan_c(const void* send, void* recv, MPI_Count count, MPI_Datatype type, MPI_Op op,
                      MPI_Comm comm) {
  return mpi::scan(send, recv, count, type, op, comm,
                   TUTTI_MPI_IF_THERE(MPI_Scan_c, send, recv, count, type, op, comm));
}

EXPORT int MPI_Exscan_c(const void* send, void* recv, MPI_Count count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm) {
  return mpi::exscan(send, recv, count, type, op, comm,
                     TUTTI_MPI_IF_THERE(MPI_Exscan_c, send, recv, count, type, op, comm));
}

EXPORT int MPI_Reduce_scatter_block_c(const void* send, void* recv, MPI_Count count,
                                      MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return mpi::reduce_scatter_block(
      send, recv, count, type, op, comm,
      TUTTI_MPI_IF_THERE(MPI_Reduce_scatter_block_c, send, recv, count, type, op, comm));
}

EXPORT int MPI_Reduce_scatter_c(const void* send, void* recv, const MPI_Count counts[],
                                MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return mpi::reduce_scatter(
      send, recv, counts, type, op, comm,
      TUTTI_MPI_IF_THERE(MPI_Reduce_scatter_c, send, recv, counts, type, op, comm));
}

EXPORT int MPI_Bcast_c(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  return mpi::bcast(buffer, count, type, root, comm,
                    TUTTI_MPI_IF_THERE(MPI_Bcast_c, buffer, count, type, root, comm));
}

EXPORT int MPI_Allgather_c(const void* send, MPI_Count send_count, MPI_Datatype send_type,
                           void* recv, MPI_Count recv_count, MPI_Datatype recv_type,
                           MPI_Comm comm) {
  return mpi::allgather(send, send_count, send_type, recv, recv_count, recv_type, comm,
                        TUTTI_MPI_IF_THERE(MPI_Allgather_c, send, send_count, send_type, recv,
                                           recv_count, recv_type, comm));
}

EXPORT int MPI_Gather_c(const void* send, MPI_Count send_count, MPI_Datatype send_type, void* recv,
                        MPI_Count recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return mpi::gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm,
                     TUTTI_MPI_IF_THERE(MPI_Gather_c, send, send_count, send_type, recv, recv_count,
                                        recv_type, root, comm));
}

EXPORT int MPI_Scatter_c(const void* send, MPI_Count send_count, MPI_Datatype send_type, void* recv,
                         MPI_Count recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return mpi::scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm,
                      TUTTI_MPI_IF_THERE(MPI_Scatter_c, send, send_count, send_type, recv,
                                         recv_count, recv_type, root, comm));
}

EXPORT int MPI_Alltoall_c(const void* send, MPI_Count send_count, MPI_Datatype send_type,
                          void* recv, MPI_Count recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  return mpi::alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm,
                       TUTTI_MPI_IF_THERE(MPI_Alltoall_c, send, send_count, send_type, recv,
                                          recv_count, recv_type, comm));
}

EXPORT int MPI_Allgatherv_c(const void* send, MPI_Count send_count, MPI_Datatype send_type,
                            void* recv, const MPI_Count counts[], const MPI_Aint places[],
                            MPI_Datatype recv_type, MPI_Comm comm) {
  return mpi::allgatherv(send, send_count, send_type, recv, counts, places, recv_type, comm,
                         TUTTI_MPI_IF_THERE(MPI_Allgatherv_c, send, send_count, send_type, recv,
                                            counts, places, recv_type, comm));
}

EXPORT int MPI_Gatherv_c(const void* send, MPI_Count send_count, MPI_Datatype send_type, void* recv,
                         const MPI_Count counts[], const MPI_Aint places[], MPI_Datatype recv_type,
                         int root, MPI_Comm comm) {
  return mpi::gatherv(send, send_count, send_type, recv, counts, places, recv_type, root, comm,
                      TUTTI_MPI_IF_THERE(MPI_Gatherv_c, send, send_count, send_type, recv, counts,
                                         places, recv_type, root, comm));
}

EXPORT int MPI_Scatterv_c(const void* send, const MPI_Count counts[], const MPI_Aint places[],
                          MPI_Datatype send_type, void* recv, MPI_Count recv_count,
                          MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return mpi::scatterv(send, counts, places, send_type, recv, recv_count, recv_type, root, comm,
                       TUTTI_MPI_IF_THERE(MPI_Scatterv_c, send, counts, places, send_type, recv,
                                          recv_count, recv_type, root, comm));
}

EXPORT int MPI_Alltoallv_c(const void* send, const MPI_Count send_counts[],
                           const MPI_Aint send_places[], MPI_Datatype send_type, void* recv,
                           const MPI_Count recv_counts[], const MPI_Aint recv_places[],
                           MPI_Datatype recv_type, MPI_Comm comm) {
  return mpi::alltoallv(
      send, send_counts, send_places, send_type, recv, recv_counts, recv_places, recv_type, comm,
      TUTTI_MPI_IF_THERE(MPI_Alltoallv_c, send, send_counts, send_places, send_type, recv,
                         recv_counts, recv_places, recv_type, comm));
}

}  // extern "C"

#endif
