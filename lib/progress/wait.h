// The one way to wait in a call: spin, then yield, then sleep, until there is progress, an error or
// the deadline. The clock is first read when spinning has found nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "transports/transport.h"

namespace tutti {

// What the program wants moved on, too, while a call waits (tutti_progress_fn).
struct Beside {
  tutti_progress_fn function = nullptr;
  void* context = nullptr;
};

// How long to spin and how often to yield before sleeping, and what to call meanwhile.
struct Patience {
  mutable uint32_t spins = default_tuning.spins;  // waits change both
  mutable uint32_t yields = default_tuning.yields;
  Beside beside = {};
  // A table may be wrong on this machine: each wait that had been better off with these moves the
  // numbers towards them. Equal to those where there is nothing to learn.
  uint32_t usual_spins = spins;
  uint32_t usual_yields = yields;
};

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

constexpr uint32_t bare_looks = 32;

// Replaces Link::inspect() where more has to be looked at to find why nothing comes.
using Inspect = std::function<Status(uint64_t now_ns)>;

// What a wait does after its spin budget. pause() is called after every look that found nothing.
class Waiter {
 public:
  // `inspect`: null for the link's. Its waits may teach `patience`.
  Waiter(Link& link, const Patience& patience, uint64_t deadline_ns, const Inspect* inspect);
  ~Waiter();

  // OK: look again. TIMEOUT without a text (the caller knows what it waits for), or the error that
  // the link found.
  Status pause();
  // Something moved.
  void progressed();

 private:
  void learn();

  Link& link_;
  const Patience& patience_;
  const Inspect* inspect_;
  uint64_t deadline_ns_;
  uint64_t inspected_ns_ = 0;
  uint32_t idle_ = 0;
  bool armed_ = false;
  // What is to be learnt from the wait that goes on: only the first one has spun.
  bool learns_spins_;
  uint64_t switches_ = 0, asleep_since_ns_ = 0;
};

// The error of a call that has not ended at its deadline although it always has something to move.
Status moving_too_long();

// Calls advance() of a state machine that never blocks until done(); or, then false, until *idle
// looks in a row, the whole budget, have found nothing, or stop() says so after a move.
template <class Advance, class Done, class Stop>
bool ends_in_spins(const Patience& patience, Advance&& advance, Done&& done, uint32_t* idle,
                   Stop&& stop) {
  const uint32_t spins = patience.spins;
  while (*idle < spins) {
    const bool moved = advance();
    if (done()) return true;
    if (moved) {
      *idle = 0;
      if (stop()) [[unlikely]]
        return false;
    } else if (++*idle > bare_looks) {
      // A pause instruction takes as long as half a small call, so the first looks do without.
      cpu_relax();
    }
  }
  return false;
}

// The same for no longer than a small call takes, and without reading the clock.
template <class Advance, class Done>
bool ends_while_spinning(const Patience& patience, Advance&& advance, Done&& done, uint32_t* idle) {
  *idle = 0;
  uint32_t moves = 0;
  return ends_in_spins(patience, advance, done, idle,
                       [&] { return ++moves == Limit::first_moves; });
}

// A wait's last look, at its deadline or when a reason is found why nothing more will come: what
// came since the look before ends the call, as where this process was stopped meanwhile.
template <class Advance, class Done>
bool ends_at_last_look(const Status& reason, Advance&& advance, Done&& done) {
  if (!what_came_counts(reason.code())) return false;
  constexpr uint32_t most_moves = 1024;  // more than rings and sockets hold, else it is too late
  for (uint32_t moves = 0; moves < most_moves; ++moves) {
    const bool moved = advance();
    if (done()) return true;
    if (!moved) return false;
  }
  return false;
}

// Goes on after ends_while_spinning() until done() or an error. `timeout_ns` counts from here on.
template <class Advance, class Done>
Status complete_in_time(Link& link, const Patience& patience, uint64_t timeout_ns,
                        Advance&& advance, Done&& done, uint32_t idle, const Inspect* inspect) {
  Limit limit(timeout_ns);
  if (ends_in_spins(patience, advance, done, &idle, [&] { return limit.passed_while_moving(); }))
    return {};
  if (idle < patience.spins) [[unlikely]]
    return moving_too_long();
  Waiter waiter(link, patience, limit.deadline_ns(), inspect);
  for (;;) {
    const bool moved = advance();
    if (moved) waiter.progressed();
    if (done()) return {};
    if (moved) {
      if (limit.passed_while_moving()) [[unlikely]]
        return moving_too_long();
    } else if (Status ended = waiter.pause(); !ended.ok()) [[unlikely]] {
      return ends_at_last_look(ended, advance, done) ? Status() : std::move(ended);
    }
  }
}

// ends_while_spinning(), then complete_in_time().
template <class Advance, class Done>
Status complete(Link& link, const Patience& patience, uint64_t timeout_ns, Advance&& advance,
                Done&& done, const Inspect* inspect = nullptr) {
  uint32_t idle = 0;
  if (ends_while_spinning(patience, advance, done, &idle)) return {};
  return complete_in_time(link, patience, timeout_ns, advance, done, idle, inspect);
}

}  // namespace tutti
