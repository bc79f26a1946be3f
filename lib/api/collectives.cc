// The calls of the C API that move data: argument checks, then the communicator.
#include "lib/api/check.h"
#include "lib/api/guard.h"
#include "lib/types.h"

namespace tutti::api {

namespace {

std::string pointer_missing(const char* name) {
  return std::string("the ") + name + " buffer is NULL";
}

}  // namespace

Status check_vector(uint64_t count, tutti_dtype dtype) {
  const size_t size = dtype_size(dtype);
  if (size == 0) return {TUTTI_INVALID, "unknown type " + std::to_string(int(dtype))};
  if (count > uint64_t(PTRDIFF_MAX) / size) {
    return {TUTTI_INVALID, std::to_string(count) + " elements of " + dtype_name(dtype) +
                               " are more than memory can hold"};
  }
  return {};
}

namespace {

Status read_config(const tutti_call_config* config, CallSettings* out) {
  if (config == nullptr) return {};
  if (config->size < sizeof(tutti_call_config)) {
    return {TUTTI_INVALID, "the call config's size is not set; use TUTTI_CALL_CONFIG_INIT"};
  }
  if (config->timeout_ms < 0) return {TUTTI_INVALID, "timeout_ms is negative"};
  if ((config->flags & ~TUTTI_CALL_UNFUSED) != 0) {
    return {TUTTI_INVALID, "unknown flags " + std::to_string(config->flags)};
  }
  out->timeout_ms = config->timeout_ms;
  out->unfused = (config->flags & TUTTI_CALL_UNFUSED) != 0;
  if (config->algorithm != nullptr && std::string_view(config->algorithm) != "auto") {
    out->algorithm = config->algorithm;
  }
  return {};
}

}  // namespace

Status check_operator(tutti_op op, tutti_dtype dtype) {
  if (unsigned(op) >= TUTTI_OP_COUNT) {
    return {TUTTI_INVALID, "unknown operator " + std::to_string(int(op))};
  }
  if (!op_supports(op, dtype)) {
    return {TUTTI_INVALID,
            std::string("operator ") + op_name(op) + " is not defined on " + dtype_name(dtype)};
  }
  return {};
}

namespace {

Status check_allreduce(const void* send, const void* recv, uint64_t count, tutti_dtype dtype,
                       tutti_op op) {
  TUTTI_TRY(check_vector(count, dtype));
  TUTTI_TRY(check_operator(op, dtype));
  if (count == 0) return {};
  if (send == nullptr) return {TUTTI_INVALID, pointer_missing("send")};
  if (recv == nullptr) return {TUTTI_INVALID, pointer_missing("receive")};
  if (recv == TUTTI_IN_PLACE) {
    return {TUTTI_INVALID, "TUTTI_IN_PLACE stands for the send buffer, not for the receive buffer"};
  }
  if (send == TUTTI_IN_PLACE) return {};
  const uintptr_t bytes = count * dtype_size(dtype);
  const uintptr_t a = reinterpret_cast<uintptr_t>(send), b = reinterpret_cast<uintptr_t>(recv);
  if (a < b + bytes && b < a + bytes) {
    return {TUTTI_INVALID,
            "the send and receive buffers overlap; to reduce in place pass TUTTI_IN_PLACE"};
  }
  return {};
}

// Checks of the last good call need not be made again for the same arguments: the hot path.
tutti_status allreduce(const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op,
                       tutti_comm comm, const tutti_call_config* config) {
  return guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    if (config != nullptr) {
      if (Status read = read_config(config, &settings); !read.ok()) return c.fail(std::move(read));
    }
    if (Status checked = check_allreduce(send, recv, count, dtype, op); !checked.ok()) {
      return c.fail(std::move(checked));
    }
    return c.allreduce(send == TUTTI_IN_PLACE ? recv : send, recv, count, dtype, op, settings);
  });
}

Status check_root(const Communicator& c, int root) {
  if (root >= 0 && root < c.nranks()) return {};
  return {TUTTI_INVALID, "root " + std::to_string(root) + " is not a rank; there are " +
                             std::to_string(c.nranks())};
}

// The buffers of the root are those of an allreduce; the other ranks have only something to send.
Status check_reduce(const Communicator& c, const void* send, const void* recv, uint64_t count,
                    tutti_dtype dtype, tutti_op op, int root) {
  TUTTI_TRY(check_root(c, root));
  if (c.rank() == root) return check_allreduce(send, recv, count, dtype, op);
  TUTTI_TRY(check_vector(count, dtype));
  TUTTI_TRY(check_operator(op, dtype));
  if (send == TUTTI_IN_PLACE) {
    return {TUTTI_INVALID, "only the root, rank " + std::to_string(root) + ", reduces in place"};
  }
  if (count != 0 && send == nullptr) return {TUTTI_INVALID, pointer_missing("send")};
  return {};
}

tutti_status reduce(const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op,
                    int root, tutti_comm comm, const tutti_call_config* config) {
  return guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    Status checked = read_config(config, &settings);
    if (checked.ok()) checked = check_reduce(c, send, recv, count, dtype, op, root);
    if (!checked.ok()) return c.fail(std::move(checked));
    return c.reduce(send == TUTTI_IN_PLACE ? recv : send, recv, count, dtype, op, root, settings);
  });
}

tutti_status broadcast(void* buffer, size_t count, tutti_dtype dtype, int root, tutti_comm comm,
                       const tutti_call_config* config) {
  return guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    Status checked = read_config(config, &settings);
    if (checked.ok()) checked = check_vector(count, dtype);
    if (checked.ok()) checked = check_root(c, root);
    if (checked.ok() && count != 0 && buffer == nullptr) {
      checked = {TUTTI_INVALID, "the buffer is NULL"};
    }
    if (!checked.ok()) return c.fail(std::move(checked));
    return c.broadcast(buffer, count, dtype, root, settings);
  });
}

Status check_message(const Communicator& c, const void* buffer, uint64_t count, tutti_dtype dtype,
                     int peer, int tag) {
  TUTTI_TRY(check_vector(count, dtype));
  if (peer < 0 || peer >= c.nranks()) {
    return {TUTTI_INVALID, "peer " + std::to_string(peer) + " is not a rank; there are " +
                               std::to_string(c.nranks())};
  }
  if (peer == c.rank()) return {TUTTI_INVALID, "a rank cannot send to itself"};
  if (tag < 0) return {TUTTI_INVALID, "tag " + std::to_string(tag) + " is negative"};
  if (count != 0 && buffer == nullptr) return {TUTTI_INVALID, "the buffer is NULL"};
  return {};
}

template <class Move>
tutti_status message(const void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                     tutti_comm comm, const tutti_call_config* config, Move&& move) {
  return guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    Status checked = read_config(config, &settings);
    if (checked.ok() && !settings.algorithm.empty()) {
      checked = {TUTTI_INVALID, "a message between two ranks has no algorithm"};
    }
    if (checked.ok()) checked = check_message(c, buffer, count, dtype, peer, tag);
    if (!checked.ok()) return c.fail(std::move(checked));
    return move(c, settings);
  });
}

void fill(char* to, size_t size, std::string_view text) {
  const size_t length = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_allreduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_op op, tutti_comm comm) {
  return api::allreduce(send, recv, count, dtype, op, comm, nullptr);
}

tutti_status tutti_allreduce_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_op op, tutti_comm comm, const tutti_call_config* config) {
  return api::allreduce(send, recv, count, dtype, op, comm, config);
}

tutti_status tutti_reduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                          tutti_op op, int root, tutti_comm comm) {
  return api::reduce(send, recv, count, dtype, op, root, comm, nullptr);
}

tutti_status tutti_reduce_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               tutti_op op, int root, tutti_comm comm,
                               const tutti_call_config* config) {
  return api::reduce(send, recv, count, dtype, op, root, comm, config);
}

tutti_status tutti_broadcast(void* buffer, size_t count, tutti_dtype dtype, int root,
                             tutti_comm comm) {
  return api::broadcast(buffer, count, dtype, root, comm, nullptr);
}

tutti_status tutti_broadcast_with(void* buffer, size_t count, tutti_dtype dtype, int root,
                                  tutti_comm comm, const tutti_call_config* config) {
  return api::broadcast(buffer, count, dtype, root, comm, config);
}

tutti_status tutti_barrier(tutti_comm comm) { return tutti_barrier_with(comm, nullptr); }

tutti_status tutti_barrier_with(tutti_comm comm, const tutti_call_config* config) {
  return api::guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    if (Status read = api::read_config(config, &settings); !read.ok()) {
      return c.fail(std::move(read));
    }
    return c.barrier(settings);
  });
}

tutti_status tutti_send_with(const void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                             tutti_comm comm, const tutti_call_config* config) {
  return api::message(buffer, count, dtype, peer, tag, comm, config,
                      [&](Communicator& c, const CallSettings& settings) {
                        return c.send(buffer, count, dtype, peer, tag, settings);
                      });
}

tutti_status tutti_recv_with(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                             tutti_comm comm, const tutti_call_config* config) {
  return api::message(buffer, count, dtype, peer, tag, comm, config,
                      [&](Communicator& c, const CallSettings& settings) {
                        return c.recv(buffer, count, dtype, peer, tag, settings);
                      });
}

tutti_status tutti_send(const void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                        tutti_comm comm) {
  return tutti_send_with(buffer, count, dtype, peer, tag, comm, nullptr);
}

tutti_status tutti_recv(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                        tutti_comm comm) {
  return tutti_recv_with(buffer, count, dtype, peer, tag, comm, nullptr);
}

tutti_status tutti_allreduce_explain(size_t count, tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                     const tutti_call_config* config, tutti_explanation* out) {
  return api::guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    Status checked = api::read_config(config, &settings);
    if (checked.ok()) checked = api::check_vector(count, dtype);
    if (checked.ok()) checked = api::check_operator(op, dtype);
    if (checked.ok() && (out == nullptr || out->size < sizeof(tutti_explanation))) {
      checked = {TUTTI_INVALID, "the explanation is NULL or its size is not set"};
    }
    if (!checked.ok()) return c.fail(std::move(checked));
    *out = {};
    out->size = sizeof(tutti_explanation);
    Choice choice;
    const tutti_status chosen = c.explain_allreduce(count, dtype, op, settings, &choice);
    if (chosen != TUTTI_OK) {
      api::fill(out->reason, sizeof(out->reason), c.last_error().text());
      return chosen;
    }
    api::fill(out->algorithm, sizeof(out->algorithm), choice.algorithm->name);
    api::fill(out->path, sizeof(out->path), choice.path == Path::schedule ? "schedule" : "fused");
    api::fill(out->transport, sizeof(out->transport), c.transport());
    api::fill(out->reason, sizeof(out->reason), choice.reason);
    out->predicted_us = choice.predicted_us;
    if (choice.runner_up != nullptr) {
      api::fill(out->runner_up, sizeof(out->runner_up), choice.runner_up->name);
      out->runner_up_us = choice.runner_up_us;
    }
    return TUTTI_OK;
  });
}

}  // extern "C"
