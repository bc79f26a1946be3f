// Point to point: messages between pairs of ranks, one alone or many at once.
#include "lib/base/types.h"
#include "lib/comm/comm.h"

namespace tutti {

namespace {

// Messages of a pair are numbered apart from the collective calls.
constexpr uint64_t message_bit = uint64_t{1} << 63;

CallSignature signature_of(const Message& message) {
  CallSignature signature;
  signature.count = message.count;
  signature.root = message.tag;
  signature.algorithm = 0xffff;
  signature.collective = Collective::point_to_point;
  signature.set_types(message.dtype, TUTTI_SUM);
  return signature;
}

}  // namespace

tutti_status Communicator::exchange(std::span<const Message> messages, int64_t timeout_ms) {
  if (!grouping_) return run_messages_anywhere(messages, timeout_ms);
  group_.insert(group_.end(), messages.begin(), messages.end());
  return TUTTI_OK;
}

tutti_status Communicator::send(const void* buffer, uint64_t count, tutti_dtype dtype, int peer,
                                int tag, const CallSettings& settings) {
  const Message message = Message::to_send(buffer, count, dtype, peer, tag);
  return exchange({&message, 1}, settings.timeout_ms);
}

tutti_status Communicator::recv(void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag,
                                const CallSettings& settings) {
  const Message message = Message::to_receive(buffer, count, dtype, peer, tag);
  return exchange({&message, 1}, settings.timeout_ms);
}

tutti_status Communicator::group_begin() {
  if (grouping_) return fail({TUTTI_INVALID, "a group is open already"});
  grouping_ = true;
  return TUTTI_OK;
}

tutti_status Communicator::group_end(int64_t timeout_ms) {
  if (!grouping_) return fail({TUTTI_INVALID, "no group is open"});
  grouping_ = false;
  const std::vector<Message> messages = std::exchange(group_, {});
  return messages.empty() ? TUTTI_OK : run_messages_anywhere(messages, timeout_ms);
}

tutti_status Communicator::group_cancel() {
  if (!grouping_) return fail({TUTTI_INVALID, "no group is open"});
  grouping_ = false;
  group_.clear();
  return TUTTI_OK;
}

Status Communicator::add_messages(std::span<const Message> messages, size_t* left) {
  if (over_.load(std::memory_order_relaxed)) return {TUTTI_ABORTED, {}};
  for (const Message& message : messages) {
    uint64_t& number = (message.sends ? sends_ : receives_)[size_t(message.peer)];
    const CallSignature signature = signature_of(message);
    CallMark mark{0, signature, call_digest(message_bit | ++number, signature)};
    mark.peer = message.peer;
    traffic_.add({message, mark, message.count * dtype_size(message.dtype), left});
  }
  return {};
}

tutti_status Communicator::run_messages(std::span<const Message> messages, int64_t timeout_ms) {
  enter();
  if (in_flight_.load(std::memory_order_acquire) != 0) {
    Operation operation;
    operation.messages.assign(messages.begin(), messages.end());
    operation.timeout_ms = timeout_ms;
    start(&operation);
    return wait(&operation);
  }
  size_t left = 0;
  Status ended;
  try {
    ended = add_messages(messages, &left);
    if (ended.ok() && left == 0) return TUTTI_OK;
    if (ended.ok()) {
      const Inspect inspect = [this](uint64_t now_ns) { return traffic_.inspect(*link_, now_ns); };
      ended = complete(
          *link_, patience_, timeout_ns(timeout_ms), [this] { return traffic_.advance(*link_); },
          [&] { return left == 0; }, &inspect);
    }
  } catch (...) {
    ended = own_failure();
  }
  if (ended.ok()) return TUTTI_OK;
  break_messages(messages[0], std::move(ended));
  return fail(broken_);
}

void Communicator::break_messages(const Message& asked, Status ended) {
  const Message stuck = traffic_.empty() ? asked : traffic_.first();
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    ended = timed_out(stuck.peer, 0);
  }
  traffic_.clear();
  break_down(std::move(ended), signature_of(stuck), 0);
}

}  // namespace tutti
