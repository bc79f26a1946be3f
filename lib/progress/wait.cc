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
      learns_spins_(patience.spins != patience.usual_spins) {
  if (learns_spins_) switches_ = switches();
}

Waiter::~Waiter() {
  if (armed_) link_.disarm();
}

// What a wait has shown that has ended.
void Waiter::learn() {
  if (asleep_since_ns_ != 0) {
    uint32_t& yields = patience_.yields;
    if (yields < patience_.usual_yields && now_ns() - asleep_since_ns_ < soon_ns)
      yields = std::min(2 * yields + 1, patience_.usual_yields);
  } else if (learns_spins_) {
    // A yield that gives the core to nobody is a slow look.
    const bool others_ran = switches() != switches_;
    uint32_t& spins = patience_.spins;
    const uint32_t usual = patience_.usual_spins;
    if (!others_ran && spins < usual) spins = std::min(2 * spins, usual);
    if (others_ran && spins > usual) spins = std::max(spins / 2, usual);
  }
  learns_spins_ = false;  // the next wait of the call does not spin
  asleep_since_ns_ = 0;
}

void Waiter::progressed() {
  if (learns_spins_ || asleep_since_ns_ != 0) [[unlikely]]
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
    uint64_t most = in_flight::busy() ? most_sleep_beside_ns : most_sleep_ns;
    if (patience_.beside.function != nullptr) most = std::min(most, most_sleep_program_ns);
    const uint64_t now = now_ns();
    if (asleep_since_ns_ == 0) asleep_since_ns_ = now;
    link_.sleep(std::min(deadline_ns_, now + most));
  }
  const uint64_t now = now_ns();
  if (now - inspected_ns_ < inspect_period_ns && now < deadline_ns_) return {};
  inspected_ns_ = now;
  TUTTI_TRY(inspect_ != nullptr ? (*inspect_)(now) : link_.inspect(now));
  if (now >= deadline_ns_) return {TUTTI_TIMEOUT, {}};
  return {};
}

}  // namespace tutti
