// The collectives of the C API that return when they have ended.
#include "lib/api/guard.h"
#include "lib/api/make_call.h"

namespace tutti::api {

namespace {

template <auto make, class... Arguments>
tutti_status blocking(tutti_comm comm, const tutti_call_config* config, Arguments... arguments) {
  return calling(comm, [&](Communicator& c) {
    MadeCall made;
    if (Status checked = make_call<make>(c, config, &made, arguments...); !checked.ok())
        [[unlikely]]
      return c.fail(std::move(checked));
    return c.run(made.call);
  });
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_allreduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_op op, tutti_comm comm) {
  return tutti_allreduce_with(send, recv, count, dtype, op, comm, nullptr);
}
tutti_status tutti_allreduce_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_op op, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_allreduce>(comm, config, send, recv, count, dtype, op);
}

tutti_status tutti_reduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                          tutti_op op, int root, tutti_comm comm) {
  return tutti_reduce_with(send, recv, count, dtype, op, root, comm, nullptr);
}
tutti_status tutti_reduce_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               tutti_op op, int root, tutti_comm comm,
                               const tutti_call_config* config) {
  return api::blocking<api::make_reduce>(comm, config, send, recv, count, dtype, op, root);
}

tutti_status tutti_broadcast(void* buffer, size_t count, tutti_dtype dtype, int root,
                             tutti_comm comm) {
  return tutti_broadcast_with(buffer, count, dtype, root, comm, nullptr);
}
tutti_status tutti_broadcast_with(void* buffer, size_t count, tutti_dtype dtype, int root,
                                  tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_broadcast>(comm, config, buffer, count, dtype, root);
}

tutti_status tutti_allgather(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_comm comm) {
  return tutti_allgather_with(send, recv, count, dtype, comm, nullptr);
}
tutti_status tutti_allgather_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_allgather>(comm, config, send, recv, count, dtype);
}

tutti_status tutti_allgatherv(const void* send, size_t send_count, void* recv, const size_t* counts,
                              const size_t* displs, tutti_dtype dtype, tutti_comm comm) {
  return tutti_allgatherv_with(send, send_count, recv, counts, displs, dtype, comm, nullptr);
}
tutti_status tutti_allgatherv_with(const void* send, size_t send_count, void* recv,
                                   const size_t* counts, const size_t* displs, tutti_dtype dtype,
                                   tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_allgatherv>(comm, config, send, send_count, recv, counts, displs,
                                             dtype);
}

tutti_status tutti_gather(const void* send, void* recv, size_t count, tutti_dtype dtype, int root,
                          tutti_comm comm) {
  return tutti_gather_with(send, recv, count, dtype, root, comm, nullptr);
}
tutti_status tutti_gather_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               int root, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_gather>(comm, config, send, recv, count, dtype, root);
}

tutti_status tutti_gatherv(const void* send, size_t send_count, void* recv, const size_t* counts,
                           const size_t* displs, tutti_dtype dtype, int root, tutti_comm comm) {
  return tutti_gatherv_with(send, send_count, recv, counts, displs, dtype, root, comm, nullptr);
}
tutti_status tutti_gatherv_with(const void* send, size_t send_count, void* recv,
                                const size_t* counts, const size_t* displs, tutti_dtype dtype,
                                int root, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_gatherv>(comm, config, send, send_count, recv, counts, displs,
                                          dtype, root);
}

tutti_status tutti_scatter(const void* send, void* recv, size_t count, tutti_dtype dtype, int root,
                           tutti_comm comm) {
  return tutti_scatter_with(send, recv, count, dtype, root, comm, nullptr);
}
tutti_status tutti_scatter_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                int root, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_scatter>(comm, config, send, recv, count, dtype, root);
}

tutti_status tutti_scatterv(const void* send, const size_t* counts, const size_t* displs,
                            void* recv, size_t recv_count, tutti_dtype dtype, int root,
                            tutti_comm comm) {
  return tutti_scatterv_with(send, counts, displs, recv, recv_count, dtype, root, comm, nullptr);
}
tutti_status tutti_scatterv_with(const void* send, const size_t* counts, const size_t* displs,
                                 void* recv, size_t recv_count, tutti_dtype dtype, int root,
                                 tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_scatterv>(comm, config, send, counts, displs, recv, recv_count,
                                           dtype, root);
}

tutti_status tutti_reduce_scatter_block(const void* send, void* recv, size_t count,
                                        tutti_dtype dtype, tutti_op op, tutti_comm comm) {
  return tutti_reduce_scatter_block_with(send, recv, count, dtype, op, comm, nullptr);
}
tutti_status tutti_reduce_scatter_block_with(const void* send, void* recv, size_t count,
                                             tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                             const tutti_call_config* config) {
  return api::blocking<api::make_reduce_scatter_block>(comm, config, send, recv, count, dtype, op);
}

tutti_status tutti_reduce_scatter(const void* send, void* recv, const size_t* counts,
                                  tutti_dtype dtype, tutti_op op, tutti_comm comm) {
  return tutti_reduce_scatter_with(send, recv, counts, dtype, op, comm, nullptr);
}
tutti_status tutti_reduce_scatter_with(const void* send, void* recv, const size_t* counts,
                                       tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                       const tutti_call_config* config) {
  return api::blocking<api::make_reduce_scatter>(comm, config, send, recv, counts, dtype, op);
}

tutti_status tutti_alltoall(const void* send, void* recv, size_t count, tutti_dtype dtype,
                            tutti_comm comm) {
  return tutti_alltoall_with(send, recv, count, dtype, comm, nullptr);
}
tutti_status tutti_alltoall_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                 tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_alltoall>(comm, config, send, recv, count, dtype);
}

tutti_status tutti_alltoallv(const void* send, const size_t* send_counts, const size_t* send_displs,
                             void* recv, const size_t* recv_counts, const size_t* recv_displs,
                             tutti_dtype dtype, tutti_comm comm) {
  return tutti_alltoallv_with(send, send_counts, send_displs, recv, recv_counts, recv_displs, dtype,
                              comm, nullptr);
}
tutti_status tutti_alltoallv_with(const void* send, const size_t* send_counts,
                                  const size_t* send_displs, void* recv, const size_t* recv_counts,
                                  const size_t* recv_displs, tutti_dtype dtype, tutti_comm comm,
                                  const tutti_call_config* config) {
  return api::blocking<api::make_alltoallv>(comm, config, send, send_counts, send_displs, recv,
                                            recv_counts, recv_displs, dtype);
}

tutti_status tutti_scan(const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op,
                        tutti_comm comm) {
  return tutti_scan_with(send, recv, count, dtype, op, comm, nullptr);
}
tutti_status tutti_scan_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_op op, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_scan>(comm, config, send, recv, count, dtype, op);
}

tutti_status tutti_exscan(const void* send, void* recv, size_t count, tutti_dtype dtype,
                          tutti_op op, tutti_comm comm) {
  return tutti_exscan_with(send, recv, count, dtype, op, comm, nullptr);
}
tutti_status tutti_exscan_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               tutti_op op, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_exscan>(comm, config, send, recv, count, dtype, op);
}

tutti_status tutti_barrier(tutti_comm comm) { return tutti_barrier_with(comm, nullptr); }
tutti_status tutti_barrier_with(tutti_comm comm, const tutti_call_config* config) {
  return api::blocking<api::make_barrier>(comm, config);
}

}  // extern "C"
