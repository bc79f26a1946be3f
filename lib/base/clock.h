// The monotonic clock and deadlines. Absolute times are nanoseconds since an unspecified start, but
// for realtime_ns().
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

// Since 1970, as the host has it.
inline int64_t realtime_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

constexpr uint64_t never_ns = std::numeric_limits<uint64_t>::max();

// Saturating: times that the clock cannot hold are never_ns.
constexpr uint64_t ns_of_ms(int64_t milliseconds) {
  constexpr uint64_t ns_per_ms = 1'000'000;
  return uint64_t(milliseconds) > never_ns / ns_per_ms ? never_ns
                                                       : uint64_t(milliseconds) * ns_per_ms;
}
constexpr uint64_t later_ns(uint64_t start_ns, uint64_t by_ns) {
  return by_ns > never_ns - start_ns ? never_ns : start_ns + by_ns;
}
inline uint64_t deadline_after_ms(int64_t milliseconds) {
  return later_ns(now_ns(), ns_of_ms(milliseconds));
}

// The deadline of a wait. The clock is first read after the spin budget, or after more moves than a
// small call makes; from then on, while something moves, about once per millisecond.
class Limit {
 public:
  static constexpr uint32_t first_moves = 16;  // more than a small call makes
  explicit Limit(uint64_t timeout_ns) : timeout_ns_(timeout_ns) {}
  uint64_t deadline_ns() {
    if (deadline_ns_ == 0) deadline_ns_ = later_ns(now_ns(), timeout_ns_);
    return deadline_ns_;
  }
  // To be called when something moved: whether the deadline has passed.
  bool passed_while_moving() { return --moves_ == 0 && look(); }

 private:
  [[gnu::noinline]] bool look() {
    constexpr uint64_t short_ns = 500'000, long_ns = 2'000'000;
    constexpr uint32_t most_moves = 1 << 16;
    const uint64_t now = now_ns(), past_ns = now - looked_ns_;
    if (looked_ns_ != 0 && past_ns < short_ns && period_ < most_moves) period_ *= 2;
    if (looked_ns_ != 0 && past_ns > long_ns && period_ > 1) period_ /= 2;
    looked_ns_ = now;
    moves_ = period_;
    return now >= deadline_ns();
  }

  uint64_t timeout_ns_;
  uint64_t deadline_ns_ = 0;
  uint64_t looked_ns_ = 0;
  uint32_t period_ = 1;  // moves between two readings of the clock, after the first one
  uint32_t moves_ = first_moves;
};

}  // namespace tutti
