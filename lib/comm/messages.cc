#include "lib/comm/messages.h"

#include <utility>

#include "lib/base/types.h"

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

void Messages::open() {
  sends_.resize(size_t(connection_.nranks));
  receives_.resize(size_t(connection_.nranks));
}

Status Messages::add(std::span<const Message> messages, size_t* left, uint32_t* entry) {
  if (failures_.over()) return {TUTTI_ABORTED, {}};
  if (connection_.record != nullptr) {
    const Message& first = messages.front();
    *entry =
        connection_.record->enter(record::message(first.peer, first.sends), signature_of(first));
  }
  for (const Message& message : messages) {
    uint64_t& number = (message.sends ? sends_ : receives_)[size_t(message.peer)];
    const CallSignature signature = signature_of(message);
    CallMark mark{0, signature, call_digest(message_bit | ++number, signature)};
    mark.peer = message.peer;
    traffic_.add({message, mark, message.count * dtype_size(message.dtype), left, *entry});
  }
  return {};
}

tutti_status Messages::run(std::span<const Message> messages, int64_t timeout_ms) {
  size_t left = 0;
  uint32_t entry = 0;
  Status ended;
  try {
    ended = add(messages, &left, &entry);
    if (ended.ok() && left != 0) {
      const Inspect look = [this](uint64_t now_ns) { return inspect(now_ns); };
      ended = complete(
          *connection_.link, connection_.patience, connection_.timeout_ns(timeout_ms),
          [this] { return advance(); }, [&] { return left == 0; }, &look);
    }
  } catch (...) {
    ended = failures_.own_failure();
  }
  if (ended.ok()) {
    leave(entry);
    return TUTTI_OK;
  }
  break_down(messages[0], std::move(ended));
  return failures_.fail(failures_.why());
}

Status Messages::inspect(uint64_t now_ns) {
  if (connection_.record != nullptr && !traffic_.empty() &&
      wait_pace_.due(traffic_.first_entry(), now_ns)) {
    const int peer = traffic_.first().peer;
    connection_.record->waits(traffic_.first_entry(), peer, connection_.way_to(peer), now_ns);
  }
  return traffic_.inspect(*connection_.link, now_ns);
}

void Messages::break_down(const Message& asked, Status ended) {
  const Message stuck = traffic_.empty() ? asked : traffic_.first();
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    ended = failures_.timed_out(stuck.peer, 0);
  }
  traffic_.clear();
  failures_.break_down(std::move(ended), signature_of(stuck), 0);
}

}  // namespace tutti
