#include "bench/work.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tutti::bench {
namespace {

constexpr size_t calibration_steps = 20000;  // some 50 us
constexpr int calibrated_times = 20;

// Each step depends on the previous one.
void compute(size_t steps) {
  static thread_local volatile double kept = 0;
  double x = kept;
  for (size_t i = 0; i < steps; ++i) x = x * 0.999 + 1;
  kept = x;
}

// The fastest of several runs: noise only makes the loop longer.
double measure_us_per_step() {
  using Clock = std::chrono::steady_clock;
  double least = 0;
  for (int i = 0; i <= calibrated_times; ++i) {
    const auto begin = Clock::now();
    compute(calibration_steps);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    if (i == 1 || (i > 1 && us < least)) least = us;  // the first only warms up
  }
  return least / double(calibration_steps);
}

}  // namespace

Work Work::lasting(double us) {
  return Work(size_t(std::llround(std::max(us, 0.0) / measure_us_per_step())));
}

void Work::run(size_t part, size_t parts) const {
  compute(steps_ * (part + 1) / parts - steps_ * part / parts);
}

}  // namespace tutti::bench
