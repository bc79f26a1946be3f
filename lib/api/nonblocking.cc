// The collectives of the C API that run beside their caller: i forms begin at once, _init forms
// when they are started.
#include "lib/api/make_call.h"
#include "lib/api/request.h"

namespace tutti::api {

namespace {

template <auto make, class... Arguments>
tutti_status request_call(Begins begins, tutti_comm comm, const tutti_call_config* config,
                          tutti_request* out, Arguments... arguments) {
  return make_request(begins, comm, out, [&](Communicator& c, Operation* operation) -> Status {
    TUTTI_TRY(make_call<make>(c, config, &operation->made, arguments...));
    if (operation->made.call.key.lengths != 0) operation->keep_lengths(size_t(c.nranks()));
    return {};
  });
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_iallreduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                              tutti_op op, tutti_comm comm, const tutti_call_config* config,
                              tutti_request* request) {
  return api::request_call<api::make_allreduce>(api::Begins::now, comm, config, request, send, recv,
                                                count, dtype, op);
}

tutti_status tutti_allreduce_init(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_op op, tutti_comm comm, const tutti_call_config* config,
                                  tutti_request* request) {
  return api::request_call<api::make_allreduce>(api::Begins::when_started, comm, config, request,
                                                send, recv, count, dtype, op);
}

tutti_status tutti_ireduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                           tutti_op op, int root, tutti_comm comm, const tutti_call_config* config,
                           tutti_request* request) {
  return api::request_call<api::make_reduce>(api::Begins::now, comm, config, request, send, recv,
                                             count, dtype, op, root);
}

tutti_status tutti_reduce_init(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               tutti_op op, int root, tutti_comm comm,
                               const tutti_call_config* config, tutti_request* request) {
  return api::request_call<api::make_reduce>(api::Begins::when_started, comm, config, request, send,
                                             recv, count, dtype, op, root);
}

tutti_status tutti_ibroadcast(void* buffer, size_t count, tutti_dtype dtype, int root,
                              tutti_comm comm, const tutti_call_config* config,
                              tutti_request* request) {
  return api::request_call<api::make_broadcast>(api::Begins::now, comm, config, request, buffer,
                                                count, dtype, root);
}

tutti_status tutti_broadcast_init(void* buffer, size_t count, tutti_dtype dtype, int root,
                                  tutti_comm comm, const tutti_call_config* config,
                                  tutti_request* request) {
  return api::request_call<api::make_broadcast>(api::Begins::when_started, comm, config, request,
                                                buffer, count, dtype, root);
}

tutti_status tutti_iallgather(const void* send, void* recv, size_t count, tutti_dtype dtype,
                              tutti_comm comm, const tutti_call_config* config,
                              tutti_request* request) {
  return api::request_call<api::make_allgather>(api::Begins::now, comm, config, request, send, recv,
                                                count, dtype);
}

tutti_status tutti_allgather_init(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_comm comm, const tutti_call_config* config,
                                  tutti_request* request) {
  return api::request_call<api::make_allgather>(api::Begins::when_started, comm, config, request,
                                                send, recv, count, dtype);
}

tutti_status tutti_iallgatherv(const void* send, size_t send_count, void* recv,
                               const size_t* counts, const size_t* displs, tutti_dtype dtype,
                               tutti_comm comm, const tutti_call_config* config,
                               tutti_request* request) {
  return api::request_call<api::make_allgatherv>(api::Begins::now, comm, config, request, send,
                                                 send_count, recv, counts, displs, dtype);
}

tutti_status tutti_allgatherv_init(const void* send, size_t send_count, void* recv,
                                   const size_t* counts, const size_t* displs, tutti_dtype dtype,
                                   tutti_comm comm, const tutti_call_config* config,
                                   tutti_request* request) {
  return api::request_call<api::make_allgatherv>(api::Begins::when_started, comm, config, request,
                                                 send, send_count, recv, counts, displs, dtype);
}

tutti_status tutti_igather(const void* send, void* recv, size_t count, tutti_dtype dtype, int root,
                           tutti_comm comm, const tutti_call_config* config,
                           tutti_request* request) {
  return api::request_call<api::make_gather>(api::Begins::now, comm, config, request, send, recv,
                                             count, dtype, root);
}

tutti_status tutti_gather_init(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               int root, tutti_comm comm, const tutti_call_config* config,
                               tutti_request* request) {
  return api::request_call<api::make_gather>(api::Begins::when_started, comm, config, request, send,
                                             recv, count, dtype, root);
}

tutti_status tutti_igatherv(const void* send, size_t send_count, void* recv, const size_t* counts,
                            const size_t* displs, tutti_dtype dtype, int root, tutti_comm comm,
                            const tutti_call_config* config, tutti_request* request) {
  return api::request_call<api::make_gatherv>(api::Begins::now, comm, config, request, send,
                                              send_count, recv, counts, displs, dtype, root);
}

tutti_status tutti_gatherv_init(const void* send, size_t send_count, void* recv,
                                const size_t* counts, const size_t* displs, tutti_dtype dtype,
                                int root, tutti_comm comm, const tutti_call_config* config,
                                tutti_request* request) {
  return api::request_call<api::make_gatherv>(api::Begins::when_started, comm, config, request,
                                              send, send_count, recv, counts, displs, dtype, root);
}

tutti_status tutti_iscatter(const void* send, void* recv, size_t count, tutti_dtype dtype, int root,
                            tutti_comm comm, const tutti_call_config* config,
                            tutti_request* request) {
  return api::request_call<api::make_scatter>(api::Begins::now, comm, config, request, send, recv,
                                              count, dtype, root);
}

tutti_status tutti_scatter_init(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                int root, tutti_comm comm, const tutti_call_config* config,
                                tutti_request* request) {
  return api::request_call<api::make_scatter>(api::Begins::when_started, comm, config, request,
                                              send, recv, count, dtype, root);
}

tutti_status tutti_iscatterv(const void* send, const size_t* counts, const size_t* displs,
                             void* recv, size_t recv_count, tutti_dtype dtype, int root,
                             tutti_comm comm, const tutti_call_config* config,
                             tutti_request* request) {
  return api::request_call<api::make_scatterv>(api::Begins::now, comm, config, request, send,
                                               counts, displs, recv, recv_count, dtype, root);
}

tutti_status tutti_scatterv_init(const void* send, const size_t* counts, const size_t* displs,
                                 void* recv, size_t recv_count, tutti_dtype dtype, int root,
                                 tutti_comm comm, const tutti_call_config* config,
                                 tutti_request* request) {
  return api::request_call<api::make_scatterv>(api::Begins::when_started, comm, config, request,
                                               send, counts, displs, recv, recv_count, dtype, root);
}

tutti_status tutti_ireduce_scatter_block(const void* send, void* recv, size_t count,
                                         tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                         const tutti_call_config* config, tutti_request* request) {
  return api::request_call<api::make_reduce_scatter_block>(api::Begins::now, comm, config, request,
                                                           send, recv, count, dtype, op);
}

tutti_status tutti_reduce_scatter_block_init(const void* send, void* recv, size_t count,
                                             tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                             const tutti_call_config* config,
                                             tutti_request* request) {
  return api::request_call<api::make_reduce_scatter_block>(api::Begins::when_started, comm, config,
                                                           request, send, recv, count, dtype, op);
}

tutti_status tutti_ireduce_scatter(const void* send, void* recv, const size_t* counts,
                                   tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                   const tutti_call_config* config, tutti_request* request) {
  return api::request_call<api::make_reduce_scatter>(api::Begins::now, comm, config, request, send,
                                                     recv, counts, dtype, op);
}

tutti_status tutti_reduce_scatter_init(const void* send, void* recv, const size_t* counts,
                                       tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                       const tutti_call_config* config, tutti_request* request) {
  return api::request_call<api::make_reduce_scatter>(api::Begins::when_started, comm, config,
                                                     request, send, recv, counts, dtype, op);
}

tutti_status tutti_ialltoall(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_comm comm, const tutti_call_config* config,
                             tutti_request* request) {
  return api::request_call<api::make_alltoall>(api::Begins::now, comm, config, request, send, recv,
                                               count, dtype);
}

tutti_status tutti_alltoall_init(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                 tutti_comm comm, const tutti_call_config* config,
                                 tutti_request* request) {
  return api::request_call<api::make_alltoall>(api::Begins::when_started, comm, config, request,
                                               send, recv, count, dtype);
}

tutti_status tutti_ialltoallv(const void* send, const size_t* send_counts,
                              const size_t* send_displs, void* recv, const size_t* recv_counts,
                              const size_t* recv_displs, tutti_dtype dtype, tutti_comm comm,
                              const tutti_call_config* config, tutti_request* request) {
  return api::request_call<api::make_alltoallv>(api::Begins::now, comm, config, request, send,
                                                send_counts, send_displs, recv, recv_counts,
                                                recv_displs, dtype);
}

tutti_status tutti_alltoallv_init(const void* send, const size_t* send_counts,
                                  const size_t* send_displs, void* recv, const size_t* recv_counts,
                                  const size_t* recv_displs, tutti_dtype dtype, tutti_comm comm,
                                  const tutti_call_config* config, tutti_request* request) {
  return api::request_call<api::make_alltoallv>(api::Begins::when_started, comm, config, request,
                                                send, send_counts, send_displs, recv, recv_counts,
                                                recv_displs, dtype);
}

tutti_status tutti_iscan(const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op,
                         tutti_comm comm, const tutti_call_config* config, tutti_request* request) {
  return api::request_call<api::make_scan>(api::Begins::now, comm, config, request, send, recv,
                                           count, dtype, op);
}

tutti_status tutti_scan_init(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_op op, tutti_comm comm, const tutti_call_config* config,
                             tutti_request* request) {
  return api::request_call<api::make_scan>(api::Begins::when_started, comm, config, request, send,
                                           recv, count, dtype, op);
}

tutti_status tutti_iexscan(const void* send, void* recv, size_t count, tutti_dtype dtype,
                           tutti_op op, tutti_comm comm, const tutti_call_config* config,
                           tutti_request* request) {
  return api::request_call<api::make_exscan>(api::Begins::now, comm, config, request, send, recv,
                                             count, dtype, op);
}

tutti_status tutti_exscan_init(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               tutti_op op, tutti_comm comm, const tutti_call_config* config,
                               tutti_request* request) {
  return api::request_call<api::make_exscan>(api::Begins::when_started, comm, config, request, send,
                                             recv, count, dtype, op);
}

tutti_status tutti_ibarrier(tutti_comm comm, const tutti_call_config* config,
                            tutti_request* request) {
  return api::request_call<api::make_barrier>(api::Begins::now, comm, config, request);
}

tutti_status tutti_barrier_init(tutti_comm comm, const tutti_call_config* config,
                                tutti_request* request) {
  return api::request_call<api::make_barrier>(api::Begins::when_started, comm, config, request);
}

}  // extern "C"
