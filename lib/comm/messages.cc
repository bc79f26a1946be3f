#include "lib/comm/messages.h"

#include <utility>

namespace tutti {

Status Messages::add(std::span<const Message> messages, size_t* left, uint32_t* entry) {
  if (failures_.over()) return {TUTTI_ABORTED, {}};
  if (connection_.record != nullptr) {
    const Message& first = messages.front();
    const int peer = first.from_any() ? record::any_rank : first.peer;
    *entry = connection_.record->enter(record::message(peer, first.sends), signature_of(first));
  }
  for (const Message& message : messages) {
    failures_.begin(message);
    traffic_.add({message, left, *entry});
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
  break_down(messages[0], &left, std::move(ended));
  return failures_.fail(failures_.why());
}

Status Messages::inspect(uint64_t now_ns) {
  if (!traffic_.empty() && wait_pace_.due(traffic_.first_serial(), now_ns)) show_wait(now_ns);
  return traffic_.inspect(*connection_.link, now_ns);
}

void Messages::show_wait(uint64_t now_ns) {
  const Message& first = traffic_.first();
  const int peer = first.from_any() ? -1 : first.peer;
  failures_.show_wait(runner_.calls(), signature_of(first), peer);
  if (connection_.record != nullptr)
    connection_.record->waits(traffic_.first_entry(), peer, connection_.way_to(peer), now_ns);
}

void Messages::break_down(const Message& asked, const size_t* left, Status ended) {
  const Message* const found = traffic_.first_of(left);
  const Message stuck = found != nullptr ? *found : traffic_.empty() ? asked : traffic_.first();
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    ended = stuck.from_any() ? failures_.timed_out_for_any(runner_.calls())
                             : failures_.timed_out(stuck.peer, 0);
  }
  traffic_.clear();
  failures_.break_down(std::move(ended), stuck, runner_.calls());
}

}  // namespace tutti
