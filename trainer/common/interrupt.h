// Ctrl-C: the run ends after the step in which it comes.
#pragma once

#include <signal.h>

#include <csignal>

namespace tutti::train {

inline volatile std::sig_atomic_t interrupted = 0;

// From here on SIGINT only sets `interrupted`.
inline void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace tutti::train
