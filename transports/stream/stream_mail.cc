// Mail over the control channels, which outlive a failed call.
#include <poll.h>

#include "lib/base/clock.h"
#include "lib/control/socket.h"
#include "transports/stream/stream_link.h"

namespace tutti::tcp {

namespace {

// That a rank takes in before it looks at them; a peer that sends more is not in its right mind.
constexpr size_t most_unread = 4096;
static_assert(wire::most_mail_bytes == Link::most_mail_bytes);

}  // namespace

void StreamLink::take_text(Peer& peer, std::string_view text) {
  if (peer.mail.size() < most_unread) {
    peer.mail.emplace_back(text);
    return;
  }
  peer.broken = {TUTTI_CORRUPT, rank_name(peer.rank) + " sends more mail than anybody reads",
                 peer.rank};
  peer.closed = true;
}

void StreamLink::post_mail(int rank, std::string_view text) {
  const auto held = hold();
  Peer& peer = *peers_[size_t(rank)];
  if (peer.left || peer.closed) return;
  const std::lock_guard lock(control_mutex_);
  tell(peer, wire::Type::mail, {}, text);
}

bool StreamLink::take_mail(int rank, std::string* text) {
  const auto held = hold();
  Peer& peer = *peers_[size_t(rank)];
  if (peer.mail.empty() && !peer.closed) read_control(peer);
  if (!peer.closed) {
    const std::lock_guard lock(control_mutex_);
    peer.control.flush();
  }
  if (peer.mail.empty()) return false;
  *text = std::move(peer.mail.front());
  peer.mail.pop_front();
  return true;
}

bool StreamLink::mail_is_out(int rank) const {
  const Peer& peer = *peers_[size_t(rank)];
  const std::lock_guard lock(control_mutex_);
  return peer.left || peer.closed || peer.control.flushed();
}

Presence StreamLink::presence(int rank, uint64_t now_ns) {
  const auto held = hold();
  Peer& peer = *peers_[size_t(rank)];
  if (!peer.closed) read_control(peer);
  if (peer.left) return peer.moved_on ? Presence::lost : Presence::left;
  if (peer.closed && peer.broken.ok()) return Presence::dead;
  if (peer.presence != Presence::here) return peer.presence;
  if (peer.closed) return lose(peer);
  if (!peer.can_be_asked() || now_ns - peer.inquiry.looked_ns < heartbeat_.look_period_ns())
    return Presence::here;
  const Contact contact = ask(peer, now_ns);
  const uint64_t asked_ns = now_ns - peer.inquiry.asked_ns;
  if (heartbeat_.suspects(contact, asked_ns)) ask_others(peer, now_ns);
  return heartbeat_.is_lost(contact, asked_ns) ? lose(peer) : Presence::here;
}

Presence StreamLink::lose(Peer& suspect) {
  suspect.presence = is_cut_off(suspect) ? Presence::cut_off : Presence::lost;
  if (!suspect.is_silent()) return suspect.presence;
  for (const auto& peer : peers_) {
    if (peer != nullptr && peer->host == suspect.host && peer->is_silent())
      peer->presence = suspect.presence;
  }
  return suspect.presence;
}

bool StreamLink::is_on_other_host(int rank) const {
  return peers_[size_t(rank)] != nullptr && !peers_[size_t(rank)]->host.empty();
}

// Who waits for one peer's mail may be waited for by another one, whose mail goes on here.
void StreamLink::sleep_for_mail(uint64_t until_ns) {
  std::vector<pollfd> set;
  {
    const auto held = hold();
    const std::lock_guard lock(control_mutex_);
    for (const auto& peer : peers_) {
      if (peer == nullptr || peer->closed) continue;
      peer->control.flush();
      // What comes from one whose mail nobody takes any more would end every sleep.
      if (peer->left || peer->presence != Presence::here) continue;
      const short events = peer->control.flushed() ? POLLIN : POLLIN | POLLOUT;
      set.push_back({peer->control.fd(), events, 0});
    }
  }
  // An error here is no reason to fail: who cannot sleep looks again at once.
  (void)wait_for_events(set, until_ns);
}

}  // namespace tutti::tcp
