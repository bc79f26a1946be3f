#include "tools/tutti-soak/stalls.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "tools/tutti-soak/random.h"

namespace tutti::soak {
namespace {

// A thread's state, shared with its signal handler.
struct State {
  timer_t timer;
  volatile bool on;
  uint64_t drawn;
};
thread_local State state;

uint64_t draw(uint64_t bound) { return mix(uint64_t(gettid()), ++state.drawn) % bound; }

timespec microseconds(uint64_t us) { return {time_t(us / 1'000'000), long(us % 1'000'000) * 1000}; }

void arm(uint64_t us) {
  const itimerspec when{{0, 0}, microseconds(us)};
  timer_settime(state.timer, 0, &when, nullptr);
}

void stall(int) {
  const int saved = errno;
  if (state.on) {
    const timespec pause = microseconds(draw(64) == 0 ? 2000 : 10 + draw(300));
    nanosleep(&pause, nullptr);
    arm(100 + draw(4000));
  }
  errno = saved;
}

}  // namespace

Stalls::Stalls() {
  struct sigaction action {};
  action.sa_handler = stall;
  action.sa_flags = SA_RESTART;
  sigaction(SIGRTMIN + 3, &action, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGRTMIN + 3;
  event._sigev_un._tid = gettid();
  if (timer_create(CLOCK_MONOTONIC, &event, &state.timer) != 0)
    throw std::runtime_error(fmt::format("cannot make a timer: {}", std::strerror(errno)));
}

Stalls::~Stalls() {
  state.on = false;
  timer_delete(state.timer);
}

void Stalls::set(bool on) {
  if (on == on_) return;
  on_ = on;
  state.on = on;
  if (on) arm(100 + draw(4000));
}

}  // namespace tutti::soak
