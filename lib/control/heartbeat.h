// Whether the host of a peer still answers.
//
// It is the kernels that talk: each acknowledges what has come for its processes, also while these
// compute, are stopped, or are in a debugger. So no process is taken for dead because it is slow;
// silence means that the host is gone, or that the network between carries nothing, be it in one
// direction only. Who waits for a peer asks: it sends a frame, which the peer's kernel has to
// acknowledge, and its own kernel sends again and again until it does. That a frame comes from the
// peer is no answer: the way back may be the one that is cut. But data that goes on is one, either
// way: what is not acknowledged is soon no longer sent. A network full of data drops a frame, and
// what is sent again of it, though it works.
//
// No I/O here; contact_of() (socket.h) is what this rank's kernel knows.
#pragma once

#include <cstdint>

namespace tutti {

// With the host at the other end of a connection.
struct Contact {
  bool asked = false;         // something that it has to acknowledge is on the way, be it a probe
  uint32_t unanswered = 0;    // how often it was sent again in vain
  uint64_t acknowledged = 0;  // bytes, since the connection was made
  uint64_t moved = 0;         // bytes of data on another connection with it, of both ways
};

// Of one peer: when its host was last looked at; since when that has been asked something while
// nothing showed that it answers, or when it was last asked; and what was found at that look.
struct Inquiry {
  uint64_t looked_ns = 0, asked_ns = 0;
  bool asked = false;
  uint64_t acknowledged = 0, moved = 0;
  uint32_t beats_unheard = 0;  // sent to it since something came from it

  void ask(uint64_t now_ns) {
    asked = true;
    asked_ns = now_ns;
    ++beats_unheard;
  }
};

class Heartbeat {
 public:
  // A host that does not answer is lost within `limit_ns`.
  explicit Heartbeat(uint64_t limit_ns) : limit_ns_(limit_ns) {}

  // How often to look at a peer that is waited for.
  uint64_t look_period_ns() const { return limit_ns_ / 30; }
  // How often to ask it.
  uint64_t ask_period_ns() const { return limit_ns_ / 6; }

  // Takes what a look at a peer has found. True: it is time to ask it, and then for inquiry.ask().
  bool take(Inquiry& inquiry, const Contact& contact, uint64_t now_ns) const {
    const bool goes_on = inquiry.asked && !has_answered(contact, inquiry) &&
                         now_ns - inquiry.looked_ns < 10 * look_period_ns();
    inquiry.looked_ns = now_ns;
    inquiry.asked = contact.asked;
    inquiry.acknowledged = contact.acknowledged;
    inquiry.moved = contact.moved;
    if (contact.asked && !goes_on) inquiry.asked_ns = now_ns;  // by something else, or long ago
    return !contact.asked && now_ns - inquiry.asked_ns >= ask_period_ns() &&
           inquiry.beats_unheard < most_beats;
  }

  // `asked_ns`: how long what it was asked first has gone without an answer.
  // Time alone proves nothing: this host may have been suspended.
  bool is_lost(const Contact& contact, uint64_t asked_ns) const {
    return contact.asked && contact.unanswered >= least_unanswered &&
           asked_ns >= limit_ns_ / 10 * 7;
  }
  // Time to find out whether it is this host that is cut off: the others are asked, too.
  bool suspects(const Contact& contact, uint64_t asked_ns) const {
    return is_silent(contact) && asked_ns >= limit_ns_ / 4;
  }
  // Of one that has had the time to answer.
  static bool is_silent(const Contact& contact) { return contact.asked && contact.unanswered != 0; }
  // The same, and nothing has shown since the last look that it answers.
  static bool is_silent(const Contact& contact, const Inquiry& inquiry) {
    return is_silent(contact) && !(inquiry.asked && has_answered(contact, inquiry));
  }

 private:
  // Since the last look.
  static bool has_answered(const Contact& contact, const Inquiry& inquiry) {
    return contact.acknowledged != inquiry.acknowledged || contact.moved != inquiry.moved;
  }

  static constexpr uint32_t least_unanswered = 2;
  // Who reads nothing for a long time would have its memory filled; after that the kernel's probes
  // ask, once a second.
  static constexpr uint32_t most_beats = 256;

  uint64_t limit_ns_;
};

}  // namespace tutti
