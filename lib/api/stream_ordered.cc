// The stream-ordered collectives of the C API: they enqueue and return.
#include "lib/api/guard.h"
#include "lib/api/make_call.h"

namespace tutti::api {

namespace {

template <auto make, class... Arguments>
tutti_status on_stream(tutti_comm comm, const tutti_call_config* config, void* stream,
                       Arguments... arguments) {
  return calling(comm, [&](Communicator& c) {
    MadeCall made;
    if (Status checked = make_call<make>(c, config, &made, arguments...); !checked.ok())
      return c.fail(std::move(checked));
    return c.enqueue(made.call, stream);
  });
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_allreduce_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                tutti_op op, tutti_comm comm, const tutti_call_config* config,
                                void* stream) {
  return api::on_stream<api::make_allreduce>(comm, config, stream, send, recv, count, dtype, op);
}
tutti_status tutti_reduce_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_op op, int root, tutti_comm comm,
                             const tutti_call_config* config, void* stream) {
  return api::on_stream<api::make_reduce>(comm, config, stream, send, recv, count, dtype, op, root);
}
tutti_status tutti_broadcast_on(void* buffer, size_t count, tutti_dtype dtype, int root,
                                tutti_comm comm, const tutti_call_config* config, void* stream) {
  return api::on_stream<api::make_broadcast>(comm, config, stream, buffer, count, dtype, root);
}
tutti_status tutti_allgather_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                tutti_comm comm, const tutti_call_config* config, void* stream) {
  return api::on_stream<api::make_allgather>(comm, config, stream, send, recv, count, dtype);
}
tutti_status tutti_gather_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             int root, tutti_comm comm, const tutti_call_config* config,
                             void* stream) {
  return api::on_stream<api::make_gather>(comm, config, stream, send, recv, count, dtype, root);
}
tutti_status tutti_scatter_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                              int root, tutti_comm comm, const tutti_call_config* config,
                              void* stream) {
  return api::on_stream<api::make_scatter>(comm, config, stream, send, recv, count, dtype, root);
}
tutti_status tutti_reduce_scatter_block_on(const void* send, void* recv, size_t count,
                                           tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                           const tutti_call_config* config, void* stream) {
  return api::on_stream<api::make_reduce_scatter_block>(comm, config, stream, send, recv, count,
                                                        dtype, op);
}
tutti_status tutti_alltoall_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               tutti_comm comm, const tutti_call_config* config, void* stream) {
  return api::on_stream<api::make_alltoall>(comm, config, stream, send, recv, count, dtype);
}
tutti_status tutti_scan_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                           tutti_op op, tutti_comm comm, const tutti_call_config* config,
                           void* stream) {
  return api::on_stream<api::make_scan>(comm, config, stream, send, recv, count, dtype, op);
}
tutti_status tutti_exscan_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_op op, tutti_comm comm, const tutti_call_config* config,
                             void* stream) {
  return api::on_stream<api::make_exscan>(comm, config, stream, send, recv, count, dtype, op);
}
tutti_status tutti_barrier_on(tutti_comm comm, const tutti_call_config* config, void* stream) {
  return api::on_stream<api::make_barrier>(comm, config, stream);
}

tutti_status tutti_comm_device_status(tutti_comm comm) {
  return api::guarded(comm, [](Communicator& c) { return c.device_status(); });
}

}  // extern "C"
