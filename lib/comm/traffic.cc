#include "lib/comm/traffic.h"

#include <algorithm>

#include "lib/base/types.h"

namespace tutti {

namespace {

// Messages of a pair are numbered apart from the collective calls.
constexpr uint64_t message_bit = uint64_t{1} << 63;
// What a rank has sent may come later than that it has gone.
constexpr uint64_t deserted_patience_ns = 1'000'000'000;

}  // namespace

CallSignature signature_of(const Message& message) {
  CallSignature signature;
  signature.count = message.count;
  signature.root = message.tag;
  signature.algorithm = 0xffff;
  signature.collective = Collective::point_to_point;
  signature.set_types(message.dtype, TUTTI_SUM);
  return signature;
}

void Traffic::open(int nranks, int self) {
  peers_.resize(size_t(nranks));
  self_ = served_ = self;
}

void Traffic::add(Moving moving) {
  const Message& message = moving.message;
  moving.bytes = message.count * dtype_size(message.dtype);
  moving.mark.signature = signature_of(message);
  moving.hash = signature_hash(moving.mark.signature);
  moving.mark.peer = message.peer;
  if (message.sends) {
    number(&moving, 0);
  } else if (!message.from_any()) {
    Peer& peer = peers_[size_t(message.peer)];
    if (moving.ended()) ++peer.empty;
    moving.empty_before = peer.empty;
  }
  if (moving.ended()) return;
  if (moving_.empty()) taken_up_ = 0;  // other calls have used the link since
  moving.serial = ++serial_;
  deserted_ns_ = 0;
  ++*moving.left;
  moving_.push_back(moving);
}

void Traffic::number(Moving* one, uint64_t empty_before) {
  Peer& peer = peers_[size_t(one->message.peer)];
  const uint64_t number = one->message.sends ? ++peer.sends : peer.received + empty_before + 1;
  one->empty_before = empty_before;
  one->mark.peer = one->message.peer;
  one->mark.digest = call_digest(message_bit | number, one->hash);
}

const Message* Traffic::first_of(const size_t* left) const {
  const auto found = std::find_if(moving_.begin(), moving_.end(),
                                  [left](const Moving& one) { return one.left == left; });
  return found != moving_.end() ? &found->message : nullptr;
}

bool Traffic::advance(Link& link) {
  bool moved = false, ended = false;
  dry_ = matched_ = false;
  for (size_t i = 0; i < moving_.size(); ++i) {
    if (!is_next(i) || !is_ready(link, i)) continue;
    take_up(link, moving_[i]);
    moved = move(link, &moving_[i]) || moved;
    ended = ended || moving_[i].ended();
  }
  if (ended) forget_ended();
  return moved || matched_;
}

Status Traffic::inspect(Link& link, uint64_t now_ns) {
  for (size_t i = 0; i < moving_.size(); ++i) {
    if (!is_next(i)) continue;
    Moving& one = moving_[i];
    // One that has no number yet seeks its message, or one from any rank that was asked for before
    // it looks first.
    matched_ = false;
    const bool seeks = !is_ready(link, i);
    if (matched_) continue;
    taken_up_ = 0;
    take_up(link, one);
    TUTTI_TRY(link.inspect(now_ns));
    if (seeks ? is_ready(link, i) || matched_ : move(link, &one)) continue;
    TUTTI_TRY(link.inspect(now_ns));
    if (one.message.from_any()) TUTTI_TRY(find_deserted(link, i, now_ns));
  }
  forget_ended();
  return {};
}

Status Traffic::find_deserted(Link& link, size_t i, uint64_t now_ns) {
  if (may_still_come(link, i, now_ns)) {
    deserted_ns_ = 0;
    return {};
  }
  if (deserted_ns_ == 0) deserted_ns_ = now_ns;
  if (now_ns - deserted_ns_ < deserted_patience_ns) return {};
  return {TUTTI_PEER_FAILED, "all other ranks have freed the communicator"};
}

// From a rank that is here, or behind what others have sent and this rank has not received.
bool Traffic::may_still_come(Link& link, size_t i, uint64_t now_ns) {
  for (int rank = 0; rank < int(peers_.size()); ++rank) {
    if (rank == self_) continue;
    if (link.presence(rank, now_ns) == Presence::here) return true;
    if (!may_take_from(rank, i) || look(link, rank, &moving_[i]) != Next::nothing) return true;
  }
  return false;
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
  if (begun != 0 && !one->message.sends) {
    Peer& from = peers_[size_t(peer)];
    ++from.received;
    from.least_empty = std::max(from.least_empty, one->empty_before);
  }
  if (bytes != 0) deserted_ns_ = 0;
  one->done += bytes;
  if (!one->ended() && bytes < Link::short_move_bytes) dry_ = true;
  if (bytes != 0 && one->ended()) --*one->left;
  return bytes != 0;
}

bool Traffic::is_next(size_t i) const {
  const Moving& one = moving_[i];
  if (one.ended()) return false;
  return std::none_of(moving_.begin(), moving_.begin() + ptrdiff_t(i), [&](const Moving& before) {
    return !before.ended() && before.message.peer == one.message.peer &&
           before.message.sends == one.message.sends &&
           (!one.message.from_any() || before.mark.signature == one.mark.signature);
  });
}

bool Traffic::is_ready(Link& link, size_t i) {
  Moving& one = moving_[i];
  if (one.is_numbered()) return true;
  if (one.message.from_any()) return find_peer(link, i);
  // Receives from any rank that were asked for before it see first what comes.
  for (size_t before = 0; before < i; ++before) {
    if (!moving_[before].message.from_any()) continue;
    if (look(link, one.message.peer, &moving_[before]) != Next::another) return false;
  }
  number(&one, one.empty_before);
  taken_up_ = 0;  // the link may have it without its number
  return true;
}

bool Traffic::find_peer(Link& link, size_t i) {
  const int nranks = int(peers_.size());
  for (int turn = 1; turn <= nranks; ++turn) {
    const int peer = (served_ + turn) % nranks;
    if (peer == self_ || !may_take_from(peer, i)) continue;
    if (look(link, peer, &moving_[i]) == Next::this_one) return true;
  }
  return false;
}

bool Traffic::may_take_from(int peer, size_t i) const {
  for (size_t j = 0; j < moving_.size(); ++j) {
    const Moving& other = moving_[j];
    if (other.message.sends || other.message.peer != peer || other.ended()) continue;
    if (j < i || other.is_numbered()) return false;
  }
  return true;
}

Next Traffic::look(Link& link, int peer, Moving* one) {
  Moving with_peer = *one;
  with_peer.message.peer = peer;
  const Peer& from = peers_[size_t(peer)];
  for (uint64_t empty = from.least_empty; empty <= from.empty; ++empty) {
    number(&with_peer, empty);
    const Next found = link.next(peer, with_peer.mark);
    if (found == Next::nothing) return Next::nothing;
    if (found != Next::this_one) continue;
    *one = with_peer;
    *one->message.source = served_ = peer;
    taken_up_ = 0;  // the link has it without its number
    matched_ = true;
    return Next::this_one;
  }
  return Next::another;
}

void Traffic::forget_ended() {
  std::erase_if(moving_, [](const Moving& one) { return one.ended(); });
}

}  // namespace tutti
