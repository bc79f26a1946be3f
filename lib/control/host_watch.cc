#include "lib/control/host_watch.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

#include "lib/base/clock.h"
#include "lib/control/address.h"
#include "lib/control/socket.h"

namespace tutti {

namespace {

constexpr uint64_t least_period_ns = 1'000'000;

std::string for_so_long(uint64_t asked_ns) {
  return " has been acknowledged for " + std::to_string(asked_ns / 1'000'000) + " ms";
}

}  // namespace

std::string says_silent(int rank, const std::string& own_host, const std::string& host,
                        uint64_t asked_ns) {
  return "the host of " + rank_name(rank) + " does not answer: nothing that " + own_host +
         " sends to " + host + for_so_long(asked_ns);
}

std::string says_cut_off(int self, const std::string& own_host, uint64_t asked_ns) {
  return "the host of " + rank_name(self) + " is cut off: nothing that " + own_host +
         " sends to other hosts" + for_so_long(asked_ns);
}

void HostWatch::ask(FrameChannel& channel, Peer& peer, uint64_t now_ns) const {
  if (!channel.flushed()) return;
  wire::Header beat;
  beat.type = wire::Type::beat;
  beat.comm = job_;
  beat.src = uint16_t(self_);
  channel.queue(beat);
  channel.flush();  // a failure is found where the channel is read
  peer.inquiry.ask(now_ns);
}

// A rank that none of several hosts answers is itself the one that is cut off.
bool HostWatch::is_cut_off(const Peer& suspect) const {
  bool others = false;
  for (const Peer& peer : peers_) {
    if (peer.host.empty()) continue;
    if (!peer.silent) return false;
    others = others || peer.host != suspect.host;
  }
  return others;
}

bool HostWatch::suspects() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.silent; });
}

void HostWatch::know(const FrameChannel& channel, Peer& peer) const {
  if (!peer.known && !is_within_host(channel.fd())) peer.host = peer_address(channel.fd()).host();
  peer.known = true;
}

Status HostWatch::look(std::vector<FrameChannel>& channels, uint64_t now_ns, bool asks) {
  if (now_ns < due_ns_) return {};
  due_ns_ = now_ns + std::max(heartbeat_.look_period_ns(), least_period_ns);
  peers_.resize(channels.size());
  size_t lost = channels.size();
  for (size_t i = 0; i < channels.size(); ++i) {
    if (channels[i].fd() < 0) continue;
    Peer& peer = peers_[i];
    know(channels[i], peer);
    if (peer.host.empty()) continue;
    const Contact contact = contact_of(channels[i].fd());
    peer.silent = Heartbeat::is_silent(contact);
    if (heartbeat_.take(peer.inquiry, contact, now_ns) && asks) ask(channels[i], peer, now_ns);
    if (heartbeat_.is_lost(contact, now_ns - peer.inquiry.asked_ns)) lost = std::min(lost, i);
  }
  if (lost == channels.size()) return {};
  const Peer& suspect = peers_[lost];
  const uint64_t asked_ns = now_ns - suspect.inquiry.asked_ns;
  const std::string own_host = local_address(channels[lost].fd()).host();
  if (is_cut_off(suspect))
    return {TUTTI_PEER_FAILED, says_cut_off(self_, own_host, asked_ns), self_};
  const int rank = int(lost);
  return {TUTTI_PEER_FAILED,
          says_silent(rank, own_host, suspect.host, asked_ns) + " while the communicator was made",
          rank};
}

void HostWatch::part(std::vector<FrameChannel>& channels) noexcept {
  try {
    peers_.resize(channels.size());
    std::vector<FrameChannel*> elsewhere;
    for (size_t i = 0; i < channels.size(); ++i) {
      if (channels[i].fd() < 0) continue;
      know(channels[i], peers_[i]);
      if (!peers_[i].host.empty() && !peers_[i].silent) elsewhere.push_back(&channels[i]);
    }
    let_arrive(std::move(elsewhere));
  } catch (const std::bad_alloc&) {
    // Then what is on its way may be lost.
  }
  for (FrameChannel& channel : channels) {
    if (channel.fd() < 0) continue;
    close_in_order(channel.fd());
    channel.close();
  }
}

}  // namespace tutti
