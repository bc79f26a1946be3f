// The heartbeat (heartbeat.h) on connections over which ranks wait for each other while a
// communicator is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/frame_channel.h"
#include "lib/control/heartbeat.h"

namespace tutti {

class HostWatch {
 public:
  // A host that does not answer is lost within `limit_ns`. `job`: which the beats belong to.
  HostWatch(int self, uint64_t job, uint64_t limit_ns)
      : self_(self), job_(job), heartbeat_(limit_ns) {}

  // When to look again.
  uint64_t due_ns() const { return due_ns_; }
  // Asks the hosts at the other ends of `channels` and looks whether they have answered. An error
  // names the rank whose host has not: channel i's rank is i, a single channel's is 0. The same
  // channels each time, some of which may not be open yet. look_on() asks nothing: of ranks that
  // may have gone in order, and those that have something to acknowledge anyway.
  Status look(std::vector<FrameChannel>& channels, uint64_t now_ns) {
    return look(channels, now_ns, true);
  }
  Status look_on(std::vector<FrameChannel>& channels, uint64_t now_ns) {
    return look(channels, now_ns, false);
  }
  // Closes them, once their ends on other hosts have what was sent last (let_arrive()). A beat may
  // come to a closed socket, or was not read from it.
  void part(std::vector<FrameChannel>& channels) noexcept;
  // Whether one had not answered as of the last look.
  bool suspects() const;
  // Something has come over channel i.
  void hear(size_t i) {
    if (i < peers_.size()) peers_[i].inquiry.beats_unheard = 0;
  }
  // Whether a frame is a beat of this job.
  bool is_beat(const wire::Header& header) const {
    return header.type == wire::Type::beat && header.comm == job_;
  }

 private:
  struct Peer {
    bool known = false;
    std::string host;  // empty: this one
    Inquiry inquiry;
    bool silent = false;
  };

  Status look(std::vector<FrameChannel>& channels, uint64_t now_ns, bool asks);
  void know(const FrameChannel& channel, Peer& peer) const;
  void ask(FrameChannel& channel, Peer& peer, uint64_t now_ns) const;
  bool is_cut_off(const Peer& suspect) const;

  int self_;
  uint64_t job_;
  Heartbeat heartbeat_;
  std::vector<Peer> peers_;
  uint64_t due_ns_ = 0;
};

// What is said of a host that has not answered for `asked_ns`, and of one that none answers.
std::string says_silent(int rank, const std::string& own_host, const std::string& host,
                        uint64_t asked_ns);
std::string says_cut_off(int self, const std::string& own_host, uint64_t asked_ns);

}  // namespace tutti
