// Point to point in the C API: argument checks, then the communicator.
#include "lib/api/checks.h"
#include "lib/api/guard.h"

namespace tutti::api {

namespace {

Status check_message(const Communicator& c, const Message& message) {
  TUTTI_TRY(check_vector(message.count, message.dtype));
  if (message.peer < 0 || message.peer >= c.nranks()) {
    return {TUTTI_INVALID, "peer " + std::to_string(message.peer) + " is not a rank; there are " +
                               std::to_string(c.nranks())};
  }
  if (message.peer == c.rank()) {
    return {TUTTI_INVALID, "a rank cannot send to itself"};
  }
  if (message.tag < 0) {
    return {TUTTI_INVALID, "tag " + std::to_string(message.tag) + " is negative"};
  }
  if (message.count != 0 && message.buffer == nullptr) {
    return {TUTTI_INVALID, "the buffer is NULL"};
  }
  return {};
}

Status read_limit(const tutti_call_config* config, CallSettings* out) {
  TUTTI_TRY(read_config(config, out));
  if (!out->algorithm.empty()) {
    return {TUTTI_INVALID, "a message between two ranks has no algorithm"};
  }
  return {};
}

tutti_status exchange(tutti_comm comm, std::span<const Message> messages,
                      const tutti_call_config* config) {
  return guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    Status checked = read_limit(config, &settings);
    for (const Message& message : messages) {
      if (checked.ok()) checked = check_message(c, message);
    }
    if (!checked.ok()) return c.fail(std::move(checked));
    return c.exchange(messages, settings.timeout_ms);
  });
}

Message to_send(const void* buffer, size_t count, tutti_dtype dtype, int peer, int tag) {
  auto* const at = const_cast<std::byte*>(static_cast<const std::byte*>(buffer));
  return {at, count, dtype, peer, tag, true};
}
Message to_receive(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag) {
  return {static_cast<std::byte*>(buffer), count, dtype, peer, tag, false};
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_send(const void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                        tutti_comm comm) {
  return tutti_send_with(buffer, count, dtype, peer, tag, comm, nullptr);
}
tutti_status tutti_send_with(const void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                             tutti_comm comm, const tutti_call_config* config) {
  const Message message = api::to_send(buffer, count, dtype, peer, tag);
  return api::exchange(comm, {&message, 1}, config);
}

tutti_status tutti_recv(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                        tutti_comm comm) {
  return tutti_recv_with(buffer, count, dtype, peer, tag, comm, nullptr);
}
tutti_status tutti_recv_with(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                             tutti_comm comm, const tutti_call_config* config) {
  const Message message = api::to_receive(buffer, count, dtype, peer, tag);
  return api::exchange(comm, {&message, 1}, config);
}

tutti_status tutti_sendrecv(const void* send, size_t send_count, int to, int send_tag, void* recv,
                            size_t recv_count, int from, int recv_tag, tutti_dtype dtype,
                            tutti_comm comm) {
  return tutti_sendrecv_with(send, send_count, to, send_tag, recv, recv_count, from, recv_tag,
                             dtype, comm, nullptr);
}
tutti_status tutti_sendrecv_with(const void* send, size_t send_count, int to, int send_tag,
                                 void* recv, size_t recv_count, int from, int recv_tag,
                                 tutti_dtype dtype, tutti_comm comm,
                                 const tutti_call_config* config) {
  std::vector<Message> messages;
  if (to != TUTTI_NO_PEER) {
    messages.push_back(api::to_send(send, send_count, dtype, to, send_tag));
  }
  if (from != TUTTI_NO_PEER) {
    messages.push_back(api::to_receive(recv, recv_count, dtype, from, recv_tag));
  }
  if (messages.size() == 2) {
    const Status apart = api::check_apart(send, send_count, recv, recv_count, dtype);
    if (!apart.ok() && comm != nullptr) {
      return api::unwrap(comm).fail({TUTTI_INVALID, "the send and receive buffers overlap"});
    }
  }
  return api::exchange(comm, messages, config);
}

tutti_status tutti_group_begin(tutti_comm comm) {
  return api::guarded(comm, [](Communicator& c) { return c.group_begin(); });
}
tutti_status tutti_group_cancel(tutti_comm comm) {
  return api::guarded(comm, [](Communicator& c) { return c.group_cancel(); });
}
tutti_status tutti_group_end(tutti_comm comm) { return tutti_group_end_with(comm, nullptr); }
tutti_status tutti_group_end_with(tutti_comm comm, const tutti_call_config* config) {
  return api::guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    if (Status read = api::read_limit(config, &settings); !read.ok()) {
      return c.fail(std::move(read));
    }
    return c.group_end(settings.timeout_ms);
  });
}

}  // extern "C"
