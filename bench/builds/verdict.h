// What is said of the samples of a comparison.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/builds/turns.h"

namespace tutti::bench::builds {

// One cell in one state of the machine. What a start happens to get, pages above all, makes one
// build faster than the other for as long as it lives, by more than turns differ: so each start
// counts as one ratio, that of its medians, and the error comes from how starts differ.
struct Row {
  size_t cell = 0;
  size_t starts = 0;                    // with enough turns in this state
  size_t turns = 0;                     // in them
  double hop_ns = 0;                    // median
  double base_us = 0, new_us = 0;       // medians over all turns
  double ratio = 0;                     // new / base, the geometric mean of the starts'
  double ratio_p25 = 0, ratio_p75 = 0;  // quartiles of the starts'
  double error_percent = 0;  // standard error of the ratio; 0: unknown, of a single start
};

// A state in which a flag takes one time from core to core.
struct State {
  double hop_ns = 0;      // median
  std::vector<Row> rows;  // cells with a start that counts, in their order
  double mean_ratio = 0;  // geometric
  size_t worst = 0;       // the row with the greatest ratio
};

struct Verdict {
  std::vector<State> states;  // one or two, the faster first
  size_t flips = 0;           // samples that saw the state change, which count nowhere
};

Verdict judge(const std::vector<Sample>& samples, size_t cells);

// Whether a row's ratio is above 1 by more than so many percent.
bool exceeds(const Verdict& verdict, double percent);

}  // namespace tutti::bench::builds
