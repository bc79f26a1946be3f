// Texts between the ranks that share a segment: for every ordered pair a small ring of pieces, and
// on either side what has not gone, or not come, whole.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lib/slots/segment.h"

namespace tutti::slots {

// Ranks by local index. One thread at a time.
class Mail {
 public:
  Mail(const Segment& segment, uint32_t self);

  void post(uint32_t to, std::string_view text) { peers_[to].outgoing.emplace_back(text); }
  // Puts into the ring what fits; whether something did, so that `to` is to be woken.
  bool push(uint32_t to);
  bool is_out(uint32_t to) const { return peers_[to].outgoing.empty(); }

  // The next text, if it is whole. *moved: pieces were taken, so that `from` is to be woken.
  bool take(uint32_t from, std::string* text, bool* moved);
  // It has written what no rank would.
  bool is_broken(uint32_t from) const { return peers_[from].broken; }

  // Whether there is a piece to take.
  bool has_come() const;

 private:
  struct Peer {
    std::deque<std::string> outgoing;
    size_t put_bytes = 0;  // of the first of them
    uint32_t put = 0;      // pieces since the start, modulo 2^32
    std::string incoming;
    uint32_t taken = 0;
    bool broken = false;
  };

  bool has_room(uint32_t to) const;
  bool has_piece(uint32_t from) const;

  Segment segment_;
  uint32_t self_;
  std::vector<Peer> peers_;
};

}  // namespace tutti::slots
