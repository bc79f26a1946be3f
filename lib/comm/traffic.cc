#include "lib/comm/traffic.h"

#include <algorithm>

namespace tutti {

void Traffic::add(Moving moving) {
  if (moving.ended()) return;
  if (moving_.empty()) taken_up_ = 0;  // other calls have used the link since
  moving.serial = ++serial_;
  ++*moving.left;
  moving_.push_back(moving);
}

bool Traffic::advance(Link& link) {
  bool moved = false, ended = false;
  dry_ = false;
  for (size_t i = 0; i < moving_.size(); ++i) {
    if (!is_next(i)) continue;
    take_up(link, moving_[i]);
    moved = move(link, &moving_[i]) || moved;
    ended = ended || moving_[i].ended();
  }
  if (ended) forget_ended();
  return moved;
}

Status Traffic::inspect(Link& link, uint64_t now_ns) {
  for (size_t i = 0; i < moving_.size(); ++i) {
    if (!is_next(i)) continue;
    taken_up_ = 0;
    take_up(link, moving_[i]);
    TUTTI_TRY(link.inspect(now_ns));
    if (!move(link, &moving_[i])) TUTTI_TRY(link.inspect(now_ns));
  }
  forget_ended();
  return {};
}

void Traffic::take_up(Link& link, const Moving& one) {
  if (taken_up_ == one.serial) return;
  link.begin(one.mark);
  taken_up_ = one.serial;
}

bool Traffic::move(Link& link, Moving* one) {
  std::byte* const at = one->message.buffer + one->done;
  const int peer = one->message.peer;
  const size_t bytes = one->message.sends ? link.try_send(peer, at, one->bytes - one->done)
                                          : link.try_recv(peer, at, one->bytes - one->done);
  const uint64_t begun = one->done == 0 && bytes != 0 ? 1 : 0;
  one->message.sends ? transfers_.sent(begun, bytes) : transfers_.received(begun, bytes);
  one->done += bytes;
  if (!one->ended() && bytes < Link::short_move_bytes) dry_ = true;
  if (bytes != 0 && one->ended()) --*one->left;
  return bytes != 0;
}

bool Traffic::is_next(size_t i) const {
  if (moving_[i].ended()) return false;
  return std::none_of(moving_.begin(), moving_.begin() + ptrdiff_t(i), [&](const Moving& before) {
    return !before.ended() && before.message.peer == moving_[i].message.peer &&
           before.message.sends == moving_[i].message.sends;
  });
}

void Traffic::forget_ended() {
  std::erase_if(moving_, [](const Moving& one) { return one.ended(); });
}

}  // namespace tutti
