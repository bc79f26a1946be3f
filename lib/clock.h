// The monotonic clock and deadlines. Absolute times are nanoseconds since an unspecified start.
#pragma once

#include <time.h>

#include <cstdint>
#include <limits>

namespace tutti {

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

constexpr uint64_t never_ns = std::numeric_limits<uint64_t>::max();

inline uint64_t deadline_after_ms(int64_t milliseconds) {
  return now_ns() + uint64_t(milliseconds) * 1'000'000u;
}

}  // namespace tutti
