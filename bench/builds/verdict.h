// What follows from the samples of a comparison.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/builds/turns.h"

namespace tutti::bench::builds {

// One cell in one state of the machine. What a start happens to get, physical pages above all,
// makes one build faster than the other for the whole start, by more than turns differ. So each
// start counts as one ratio, that of its medians, and the error is computed from the spread between
// starts.
struct Row {
  size_t cell = 0;
  size_t starts = 0;                    // with enough turns in this state
  size_t turns = 0;                     // in these starts
  double hop_ns = 0;                    // median
  double base_us = 0, new_us = 0;       // medians over all turns
  double ratio = 0;                     // new / base, the geometric mean of the starts' ratios
  double ratio_p25 = 0, ratio_p75 = 0;  // quartiles of the starts' ratios
  double error_percent = 0;  // standard error of the ratio; 0: unknown, of a single start
};

// A state of the machine, with one hop time.
struct State {
  double hop_ns = 0;      // median
  std::vector<Row> rows;  // cells with a start that counts, in their order
  double mean_ratio = 0;  // geometric
  size_t worst = 0;       // the row with the greatest ratio
};

struct Verdict {
  std::vector<State> states;  // one or two, the faster first
  size_t flips = 0;           // samples in which the state changed; they are not counted
};

Verdict judge(const std::vector<Sample>& samples, size_t cells);

// Whether a row's ratio is above 1 by more than `percent` %.
bool exceeds(const Verdict& verdict, double percent);

}  // namespace tutti::bench::builds
