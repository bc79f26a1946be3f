// The one way to wait in a call: spin, then yield, then sleep, until there is progress, an error or
// the deadline. The clock is first read when the spinning has brought nothing.
#pragma once

#include <cstdint>
#include <functional>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "transports/transport.h"

namespace tutti {

// How long to spin and how often to yield before sleeping.
struct Patience {
  uint32_t spins = 2000;
  uint32_t yields = 200;

  // `crowded`: there are more ranks on this host than cores for them. Then whoever is waited for
  // needs this core: 4 ranks on 2 cores took 3.0 us at 4 B without spinning, 7.7 us with 20 looks.
  static Patience of(bool crowded) { return crowded ? Patience{1, 2000} : Patience{}; }
};

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

constexpr uint32_t bare_looks = 32;

// Looks for a reason why nothing comes, as Link::inspect(), where that is not enough.
using Inspect = std::function<Status(uint64_t now_ns)>;

// What a wait does after its spin budget. pause() is called after every look that found nothing.
class Waiter {
 public:
  // `inspect` may be null: the link's.
  Waiter(Link& link, const Patience& patience, uint64_t deadline_ns, const Inspect* inspect);
  ~Waiter();

  // OK: look again. TIMEOUT without a text (the caller knows what for), or what the link found.
  Status pause();
  // Something moved.
  void progressed();

 private:
  Link& link_;
  Patience patience_;
  const Inspect* inspect_;
  uint64_t deadline_ns_;
  uint64_t inspected_ns_ = 0;
  uint32_t idle_ = 0;
  bool armed_ = false;
};

// A call that does not end in time although there is always something to move.
Status moving_too_long();

// Calls advance() until done(); both are state machines that never block.
template <class Advance, class Done>
Status complete(Link& link, const Patience& patience, uint64_t timeout_ns, Advance&& advance,
                Done&& done, const Inspect* inspect = nullptr) {
  Limit limit(timeout_ns);
  for (uint32_t idle = 0; idle < patience.spins;) {
    if (advance()) {
      if (done()) return {};
      if (limit.passed_while_moving()) [[unlikely]]
        return moving_too_long();
      idle = 0;
    } else {
      if (done()) return {};
      // A pause takes as long as half a small call, so the first looks do without.
      if (++idle > bare_looks) cpu_relax();
    }
  }
  Waiter waiter(link, patience, limit.deadline_ns(), inspect);
  for (;;) {
    const bool moved = advance();
    if (done()) return {};
    if (moved) {
      if (limit.passed_while_moving()) [[unlikely]]
        return moving_too_long();
      waiter.progressed();
    } else {
      TUTTI_TRY(waiter.pause());
    }
  }
}

}  // namespace tutti
