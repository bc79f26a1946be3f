// Point to point in the C API: argument checks, then the communicator.
#include <array>

#include "lib/api/checks.h"
#include "lib/api/request.h"

namespace tutti::api {

namespace {

// Of tutti_irecv_any(); no other function's arguments make such a message.
bool is_from_any(const Message& message) { return message.from_any() && message.source != nullptr; }

Status check_message(const Communicator& c, const Message& message) {
  TUTTI_TRY(check_vector(message.count, message.dtype));
  if (!is_from_any(message) && (message.peer < 0 || message.peer >= c.nranks())) {
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

Status check_messages(const Communicator& c, std::span<const Message> messages,
                      const tutti_call_config* config, CallSettings* out) {
  TUTTI_TRY(read_limit(config, out));
  for (const Message& message : messages) TUTTI_TRY(check_message(c, message));
  if (messages.size() == 2) {
    const Message &out_half = messages[0], &in_half = messages[1];
    if (!check_apart(out_half.buffer, out_half.count, in_half.buffer, in_half.count, in_half.dtype)
             .ok()) {
      return {TUTTI_INVALID, "the send and receive buffers overlap"};
    }
  }
  return {};
}

tutti_status exchange(tutti_comm comm, std::span<const Message> messages,
                      const tutti_call_config* config) {
  return calling(comm, [&](Communicator& c) {
    CallSettings settings;
    Status checked = check_messages(c, messages, config, &settings);
    if (!checked.ok()) return c.refuse(std::move(checked), messages);
    return messages.empty() ? TUTTI_OK : c.exchange(messages, settings.timeout_ms);
  });
}

Status note_messages(Communicator& c, std::span<const Message> messages,
                     const tutti_call_config* config, Operation* operation) {
  operation->messages.assign(messages.begin(), messages.end());
  // Without any it would be a collective: one without elements, which concerns no other rank.
  if (messages.empty()) {
    operation->messages.push_back(Message::to_receive(nullptr, 0, TUTTI_INT8, c.rank(), 0));
  }
  CallSettings settings;
  TUTTI_TRY(check_messages(c, messages, config, &settings));
  TUTTI_TRY(c.outside_group());
  operation->timeout_ms = settings.timeout_ms;
  return {};
}

tutti_status request_messages(Begins begins, tutti_comm comm, std::span<const Message> messages,
                              const tutti_call_config* config, tutti_request* out) {
  return make_request(begins, comm, out, [&](Communicator& c, Operation* operation) {
    return note_messages(c, messages, config, operation);
  });
}

Status check_from_any(const Communicator& c, size_t count, const int* source) {
  if (c.nranks() == 1) return {TUTTI_INVALID, "there is no other rank to receive from"};
  if (count == 0) {
    return {TUTTI_INVALID, "a receive from any rank needs elements: without any nothing is sent"};
  }
  if (source == nullptr) return {TUTTI_INVALID, "there is nowhere to put the sender's rank"};
  return {};
}

// The halves of a sendrecv that exist. Allocates nothing, because exceptions are not caught yet
// here.
class Halves {
 public:
  Halves(const void* send, size_t send_count, int to, int send_tag, void* recv, size_t recv_count,
         int from, int recv_tag, tutti_dtype dtype) {
    if (to != TUTTI_NO_PEER) {
      messages_[n_++] = Message::to_send(send, send_count, dtype, to, send_tag);
    }
    if (from != TUTTI_NO_PEER) {
      messages_[n_++] = Message::to_receive(recv, recv_count, dtype, from, recv_tag);
    }
  }
  operator std::span<const Message>() const { return {messages_.data(), n_}; }

 private:
  std::array<Message, 2> messages_;
  size_t n_ = 0;
};

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
  const Message message = Message::to_send(buffer, count, dtype, peer, tag);
  return api::exchange(comm, {&message, 1}, config);
}

tutti_status tutti_recv(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                        tutti_comm comm) {
  return tutti_recv_with(buffer, count, dtype, peer, tag, comm, nullptr);
}
tutti_status tutti_recv_with(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                             tutti_comm comm, const tutti_call_config* config) {
  const Message message = Message::to_receive(buffer, count, dtype, peer, tag);
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
  return api::exchange(
      comm, api::Halves(send, send_count, to, send_tag, recv, recv_count, from, recv_tag, dtype),
      config);
}

tutti_status tutti_isend(const void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                         tutti_comm comm, const tutti_call_config* config, tutti_request* request) {
  const Message message = Message::to_send(buffer, count, dtype, peer, tag);
  return api::request_messages(api::Begins::now, comm, {&message, 1}, config, request);
}
tutti_status tutti_send_init(const void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                             tutti_comm comm, const tutti_call_config* config,
                             tutti_request* request) {
  const Message message = Message::to_send(buffer, count, dtype, peer, tag);
  return api::request_messages(api::Begins::when_started, comm, {&message, 1}, config, request);
}
tutti_status tutti_irecv(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                         tutti_comm comm, const tutti_call_config* config, tutti_request* request) {
  const Message message = Message::to_receive(buffer, count, dtype, peer, tag);
  return api::request_messages(api::Begins::now, comm, {&message, 1}, config, request);
}
tutti_status tutti_recv_init(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                             tutti_comm comm, const tutti_call_config* config,
                             tutti_request* request) {
  const Message message = Message::to_receive(buffer, count, dtype, peer, tag);
  return api::request_messages(api::Begins::when_started, comm, {&message, 1}, config, request);
}
tutti_status tutti_irecv_any(void* buffer, size_t count, tutti_dtype dtype, int tag, int* source,
                             tutti_comm comm, const tutti_call_config* config,
                             tutti_request* request) {
  const Message message = Message::to_receive_from_any(buffer, count, dtype, tag, source);
  return api::make_request(api::Begins::now, comm, request,
                           [&](Communicator& c, Operation* operation) -> Status {
                             operation->messages = {message};
                             TUTTI_TRY(api::check_from_any(c, count, source));
                             return api::note_messages(c, {&message, 1}, config, operation);
                           });
}
tutti_status tutti_isendrecv(const void* send, size_t send_count, int to, int send_tag, void* recv,
                             size_t recv_count, int from, int recv_tag, tutti_dtype dtype,
                             tutti_comm comm, const tutti_call_config* config,
                             tutti_request* request) {
  return api::request_messages(
      api::Begins::now, comm,
      api::Halves(send, send_count, to, send_tag, recv, recv_count, from, recv_tag, dtype), config,
      request);
}
tutti_status tutti_sendrecv_init(const void* send, size_t send_count, int to, int send_tag,
                                 void* recv, size_t recv_count, int from, int recv_tag,
                                 tutti_dtype dtype, tutti_comm comm,
                                 const tutti_call_config* config, tutti_request* request) {
  return api::request_messages(
      api::Begins::when_started, comm,
      api::Halves(send, send_count, to, send_tag, recv, recv_count, from, recv_tag, dtype), config,
      request);
}

tutti_status tutti_group_begin(tutti_comm comm) {
  return api::guarded(comm, [](Communicator& c) { return c.group_begin(); });
}
tutti_status tutti_group_cancel(tutti_comm comm) {
  return api::guarded(comm, [](Communicator& c) { return c.group_cancel(); });
}
tutti_status tutti_group_end(tutti_comm comm) { return tutti_group_end_with(comm, nullptr); }
tutti_status tutti_group_end_with(tutti_comm comm, const tutti_call_config* config) {
  return api::calling(comm, [&](Communicator& c) {
    CallSettings settings;
    if (Status read = api::read_limit(config, &settings); !read.ok()) {
      return c.fail(std::move(read));
    }
    return c.group_end(settings.timeout_ms);
  });
}

}  // extern "C"
