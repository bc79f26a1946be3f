// Point to point: messages between pairs of ranks, one alone or many at once.
#include <algorithm>

#include "lib/comm/comm.h"
#include "lib/types.h"

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

// A message on its way.
struct Moving {
  Message message;
  CallMark mark;
  uint64_t bytes = 0;
  uint64_t done = 0;

  bool ended() const { return done == bytes; }
};

// Several messages over one link, which knows only one at a time.
class Traffic {
 public:
  explicit Traffic(Link& link) : link_(link) {}

  void add(const Moving& moving) {
    moving_.push_back(moving);
    left_ += moving.ended() ? 0 : 1;
  }
  bool done() const { return left_ == 0; }
  // The first that has not ended.
  const Moving& first_left() const {
    return *std::find_if(moving_.begin(), moving_.end(),
                         [](const Moving& one) { return !one.ended(); });
  }

  bool advance() {
    bool moved = false;
    for (size_t i = 0; i < moving_.size(); ++i) {
      if (!is_next(i)) continue;
      take_up(moving_[i]);
      moved = move(&moving_[i]) || moved;
    }
    return moved;
  }

  // A reason why one of them gets nowhere. A message that stays where it is after a first look at
  // its peer is looked at twice, for what the peer had sent before is visible by then.
  Status inspect(uint64_t now_ns) {
    for (size_t i = 0; i < moving_.size(); ++i) {
      if (!is_next(i)) continue;
      taken_up_ = nullptr;
      take_up(moving_[i]);
      TUTTI_TRY(link_.inspect(now_ns));
      if (!move(&moving_[i])) TUTTI_TRY(link_.inspect(now_ns));
    }
    return {};
  }

 private:
  void take_up(const Moving& one) {
    if (taken_up_ == &one) return;
    link_.begin(one.mark);
    taken_up_ = &one;
  }

  bool move(Moving* one) {
    std::byte* const at = one->message.buffer + one->done;
    const int peer = one->message.peer;
    const size_t bytes = one->message.sends ? link_.try_send(peer, at, one->bytes - one->done)
                                            : link_.try_recv(peer, at, one->bytes - one->done);
    one->done += bytes;
    left_ -= bytes != 0 && one->ended() ? 1 : 0;
    return bytes != 0;
  }

  // Messages with a peer in one direction go one after the other.
  bool is_next(size_t i) const {
    if (moving_[i].ended()) return false;
    return std::none_of(moving_.begin(), moving_.begin() + ptrdiff_t(i), [&](const Moving& before) {
      return !before.ended() && before.message.peer == moving_[i].message.peer &&
             before.message.sends == moving_[i].message.sends;
    });
  }

  Link& link_;
  std::vector<Moving> moving_;
  size_t left_ = 0;
  const Moving* taken_up_ = nullptr;  // the link's
};

}  // namespace

tutti_status Communicator::exchange(std::span<const Message> messages, int64_t timeout_ms) {
  if (!grouping_) return run_messages(messages, timeout_ms);
  group_.insert(group_.end(), messages.begin(), messages.end());
  return TUTTI_OK;
}

tutti_status Communicator::send(const void* buffer, uint64_t count, tutti_dtype dtype, int peer,
                                int tag, const CallSettings& settings) {
  auto* const at = const_cast<std::byte*>(static_cast<const std::byte*>(buffer));
  const Message message{at, count, dtype, peer, tag, true};
  return exchange({&message, 1}, settings.timeout_ms);
}

tutti_status Communicator::recv(void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag,
                                const CallSettings& settings) {
  const Message message{static_cast<std::byte*>(buffer), count, dtype, peer, tag, false};
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
  return messages.empty() ? TUTTI_OK : run_messages(messages, timeout_ms);
}

tutti_status Communicator::group_cancel() {
  if (!grouping_) return fail({TUTTI_INVALID, "no group is open"});
  grouping_ = false;
  group_.clear();
  return TUTTI_OK;
}

tutti_status Communicator::run_messages(std::span<const Message> messages, int64_t timeout_ms) {
  if (over_.load(std::memory_order_relaxed)) {
    return give_up({TUTTI_ABORTED, {}}, signature_of(messages[0]), 0);
  }
  Traffic traffic(*link_);
  for (const Message& message : messages) {
    uint64_t& number = (message.sends ? sends_ : receives_)[size_t(message.peer)];
    const CallSignature signature = signature_of(message);
    CallMark mark{0, signature, call_digest(message_bit | ++number, signature)};
    mark.peer = message.peer;
    traffic.add({message, mark, message.count * dtype_size(message.dtype)});
  }
  if (traffic.done()) return TUTTI_OK;
  const Inspect inspect = [&](uint64_t now_ns) { return traffic.inspect(now_ns); };
  Status ended = complete(
      *link_, patience_, timeout_ns(timeout_ms), [&] { return traffic.advance(); },
      [&] { return traffic.done(); }, &inspect);
  if (ended.ok()) return TUTTI_OK;
  const Message& stuck = traffic.done() ? messages[0] : traffic.first_left().message;
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    ended = {TUTTI_TIMEOUT, describe_wait(stuck.peer, 0), stuck.peer};
  }
  return give_up(std::move(ended), signature_of(stuck), 0);
}

}  // namespace tutti
