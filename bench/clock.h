// Microseconds of the clock that does not jump.
#pragma once

#include <chrono>

namespace tutti::bench {

using Clock = std::chrono::steady_clock;

inline double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

}  // namespace tutti::bench
