#include "lib/progress/wait.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "lib/progress/in_flight.h"

namespace tutti {

namespace {

// How often a waiting rank looks for a reason why nothing comes, and the longest that it sleeps.
constexpr uint64_t inspect_period_ns = 1'000'000;
constexpr uint64_t most_sleep_ns = 10'000'000;
constexpr uint64_t most_sleep_beside_ns = 200'000;   // while something else is in flight
constexpr uint64_t most_sleep_program_ns = 100'000;  // where the program has something to move on
constexpr uint32_t yields_per_clock = 16;
constexpr uint64_t soon_ns = 1'000'000;

// How often this thread has lost its core to another one.
uint64_t switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return uint64_t(usage.ru_nvcsw + usage.ru_nivcsw);
}

}  // namespace

Status moving_too_long() {
  return {TUTTI_TIMEOUT, "the call was still moving data at its deadline"};
}

Waiter::Waiter(Link& link, const Patience& patience, uint64_t deadline_ns, const Inspect* inspect)
    : link_(link),
      patience_(patience),
      inspect_(inspect),
      deadline_ns_(deadline_ns),
      learns_(patience.learns()) {
  if (!learns_) return;
  since_ns_ = now_ns();
  switches_ = switches();
}

Waiter::~Waiter() {
  if (armed_) link_.disarm();
}

// What the first wait has shown: later ones of a call did not spin.
void Waiter::learn() {
  learns_ = false;
  uint32_t& spins = patience_.spins;
  uint32_t& yields = patience_.yields;
  const uint32_t usual_spins = patience_.usual_spins, usual_yields = patience_.usual_yields;
  if (slept_) {
    if (yields < usual_yields && now_ns() - since_ns_ < soon_ns)
      yields = std::min(2 * yields + 1, usual_yields);
    return;
  }
  // A yield that gives the core to nobody is a slow look.
  const bool others_ran = switches() != switches_;
  if (!others_ran && spins < usual_spins) spins = std::min(2 * spins, usual_spins);
  if (others_ran && spins > usual_spins) spins = std::max(spins / 2, usual_spins);
}

void Waiter::progressed() {
  if (learns_) [[unlikely]]
    learn();
  idle_ = 0;
  if (!armed_) return;
  link_.disarm();
  armed_ = false;
}

Status Waiter::pause() {
  // Each time: a yield takes longer, on a busy processor a thousand times as long.
  if (patience_.beside.function != nullptr) patience_.beside.function(patience_.beside.context);
  if (in_flight::advance_all() == in_flight::Moved::freely) {
    idle_ = 0;
  } else if (idle_++ < patience_.yields) {
    sched_yield();
    if (idle_ % yields_per_clock != 0) return {};
  } else if (!armed_) {
    link_.arm();  // the caller looks once more before the sleep
    armed_ = true;
    return {};
  } else {
    armed_ = false;
    slept_ = true;
    uint64_t most = in_flight::busy() ? most_sleep_beside_ns : most_sleep_ns;
    if (patience_.beside.function != nullptr) most = std::min(most, most_sleep_program_ns);
    link_.sleep(std::min(deadline_ns_, now_ns() + most));
  }
  const uint64_t now = now_ns();
  if (now - inspected_ns_ < inspect_period_ns && now < deadline_ns_) return {};
  inspected_ns_ = now;
  TUTTI_TRY(inspect_ != nullptr ? (*inspect_)(now) : link_.inspect(now));
  if (now >= deadline_ns_) return {TUTTI_TIMEOUT, {}};
  return {};
}

}  // namespace tutti
