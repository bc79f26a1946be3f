// --straggler: workers that take longer than they need, so that one sees what ways to agree that
// wait for nobody are for.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/common/options.h"

namespace tutti::train {

struct Straggler {
  int rank = -1;        // the one that is slow; -1: none
  double factor = 1;    // how many times as long it takes
  bool jitter = false;  // all take, by turns, 1 + an exponential variate of mean 1 times as long
  // Of --straggler, RANK:FACTOR or jitter. Throws BadInput.
  static Straggler of(const Options& options);
  // How many times as long this worker takes for a step.
  double slows(uint64_t seed, int64_t step, int worker) const;
};

// Makes this worker's computation, which took `seconds`, as long as --straggler has it.
void straggle(const Options& options, int64_t step, int worker, double seconds);

}  // namespace tutti::train
