#include "lib/comm/mixed_link.h"

#include <algorithm>

#include "lib/base/clock.h"

namespace tutti {

namespace {
constexpr uint64_t turn_ns = 100'000;  // how long the sleep on one transport lasts
}

MixedLink::MixedLink(std::vector<std::unique_ptr<Link>> links, std::vector<int> link_of)
    : links_(std::move(links)), link_of_(std::move(link_of)) {
  for (const auto& link : links_) {
    if (!name_.empty()) name_ += '+';
    name_ += link->name();
  }
}

void MixedLink::begin(const CallMark& mark) {
  for (const auto& link : links_) link->begin(mark);
}

Status MixedLink::inspect(uint64_t now_ns) {
  for (const auto& link : links_) {
    Status found = link->inspect(now_ns);
    if (found.ok()) continue;
    // Peers on the other transports do not know of it yet.
    for (const auto& other : links_) {
      if (other != link) other->abort(found);
    }
    return found;
  }
  return {};
}

void MixedLink::arm() {
  for (const auto& link : links_) link->arm();
}

void MixedLink::disarm() {
  for (const auto& link : links_) link->disarm();
}

Link& MixedLink::next_sleeper() {
  sleeper_ = (sleeper_ + 1) % links_.size();
  return *links_[sleeper_];
}

void MixedLink::sleep(uint64_t until_ns) {
  next_sleeper().sleep(std::min(until_ns, now_ns() + turn_ns));
}

void MixedLink::sleep_for_mail(uint64_t until_ns) {
  next_sleeper().sleep_for_mail(std::min(until_ns, now_ns() + turn_ns));
}

void MixedLink::move_on() {
  for (const auto& link : links_) link->move_on();
}

void MixedLink::leave(bool in_call) noexcept {
  for (const auto& link : links_) link->leave(in_call);
}

void MixedLink::post_note(const Note& note) {
  for (const auto& link : links_) link->post_note(note);
}

void MixedLink::abort(const Status& reason) {
  for (const auto& link : links_) link->abort(reason);
}

}  // namespace tutti
