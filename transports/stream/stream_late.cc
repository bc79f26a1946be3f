// Data connections that are made at first use.
#include <poll.h>

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/control/socket.h"
#include "transports/stream/stream_link.h"

namespace tutti::tcp {

namespace {

// How often a rank that spins goes on with connections: it would inspect only every millisecond.
constexpr uint64_t connect_period_ns = 20'000;

}  // namespace

static_assert(wire::most_connect_bytes == Address::packed_bytes);

bool StreamLink::Peer::is_out() {
  const std::lock_guard lock(link.control_mutex_);
  return control.flush() && control.flushed();
}

void StreamLink::Peer::post(wire::Type type, std::string_view payload) {
  const std::lock_guard lock(link.control_mutex_);
  link.tell(*this, type, {}, payload);
}

void StreamLink::Peer::look() {
  if (!closed) link.read_control(*this);
  link.go_on_connecting();
}

void StreamLink::go_on_connecting() {
  if (!is_connecting() || over_) return;
  if (const uint64_t now = now_ns(); now - connected_ns_ >= connect_period_ns) advance_late(now);
}

void StreamLink::Peer::want() {
  if (asks || left || closed || link.over_) return;
  asks = true;
  link.asking_.push_back(rank);  // also where it is connected, until all frames are out
  if (!late->is_connected()) link.ask_to_connect(*this);
}

Status StreamLink::own_error(const Status& why) const {
  return {why.code(), rank_name(self_) + ": " + why.text(), why.rank() >= 0 ? why.rank() : self_,
          mark_.epoch};
}

// Once, and only with what was posted before out of the way.
void StreamLink::ask_to_connect(Peer& peer) {
  if (peer.has_asked || !peer.is_out()) return;
  peer.has_asked = true;
  std::string payload;
  if (late_->is_listener(peer.rank)) {
    Address at;
    Status expects = late_->expect(peer.rank, &at);
    if (!expects.ok()) return fail(own_error(expects));
    payload.resize(Address::packed_bytes);
    at.pack(reinterpret_cast<uint8_t*>(payload.data()));
  } else if (late_->is_calling(peer.rank)) {
    return;
  }
  peer.post(wire::Type::connect, payload);
}

bool StreamLink::take_connect(Peer& peer, std::string_view payload) {
  if (!late_) return false;
  if (late_->is_listener(peer.rank)) {
    if (!payload.empty()) return false;
    peer.want();
    return true;
  }
  Address at;
  if (payload.size() != Address::packed_bytes ||
      !Address::unpack(reinterpret_cast<const uint8_t*>(payload.data()), &at) ||
      peer.late->is_connected() || late_->is_calling(peer.rank)) {
    return false;
  }
  if (!over_) late_->call(peer.rank, at);
  return true;
}

// The peer has left or died. Where it has sent over the connection, its end of that is made.
void StreamLink::let_go(Peer& peer) {
  if (peer.late == nullptr) return;
  const bool more = !peer.closed && peer.late->has_peer_moved() && late_->is_calling(peer.rank);
  peer.late->peer_leaves(more);
  if (!more) late_->forget(peer.rank);
  std::erase(asking_, peer.rank);
}

void StreamLink::advance_late(uint64_t now_ns) {
  connected_ns_ = now_ns;
  for (const int rank : asking_) {
    if (Peer& peer = *peers_[size_t(rank)]; !peer.late->is_connected()) ask_to_connect(peer);
  }
  std::vector<LateConnections::Made> made;
  Status advanced = late_->advance(now_ns, &made);
  for (LateConnections::Made& one : made) {
    Peer& peer = *peers_[size_t(one.peer)];
    peer.late->connect(std::move(one.socket));
    if (watches_data_) watch_data_of(peer);
  }
  std::erase_if(asking_, [&](int rank) {
    Peer& peer = *peers_[size_t(rank)];
    return peer.late->is_connected() && peer.is_out();
  });
  if (advanced.ok()) return;
  const int rank = advanced.rank();
  if (rank >= 0 && rank != self_ && peers_[size_t(rank)]->left) {
    peers_[size_t(rank)]->late->peer_leaves(false);
    late_->forget(rank);
  } else {
    fail(own_error(advanced));
  }
}

void StreamLink::sleep_while_connecting(uint64_t until_ns) {
  std::vector<pollfd> set{{events_.get(), POLLIN, 0}};
  late_->watch(set);
  for (const int rank : asking_) {
    Peer& peer = *peers_[size_t(rank)];
    if (!peer.is_out()) set.push_back({peer.control.fd(), POLLOUT, 0});
  }
  // An error here is no reason to fail: who cannot sleep looks again at once.
  (void)wait_for_events(set, std::min(until_ns, late_->due_ns()));
  take_events();
  advance_late(now_ns());
}

}  // namespace tutti::tcp
