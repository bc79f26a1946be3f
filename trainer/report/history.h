// The steps of a run, and their totals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/sync/strategy.h"

namespace tutti::train {

struct StepRecord {
  int64_t step = 0;
  double seconds = 0;
  double samples_per_s = 0;
  StepFigures figures;
  double validation = 0;  // 0: not measured
};

struct Totals {
  int64_t steps = 0;
  double seconds = 0;        // of all steps
  double median_ms = 0;      // of a step, the first two left out
  double samples_per_s = 0;  // batch / median
  double exposed = 0;        // fraction of the steps' time
  double hidden = 0;         // fraction of the communication
  double bytes_per_step = 0;
  double messages_per_step = 0;
  double noise_samples = 0;  // gradient noise scale; 0: not known
  double efficiency = 0;     // statistical: progress of a sample, 1 at a batch of one shard
};

// `batch` and `shard`: samples of a step and of a shard.
Totals totals_of(const std::vector<StepRecord>& steps, double batch, double shard);

}  // namespace tutti::train
