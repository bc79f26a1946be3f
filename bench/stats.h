// Statistics of the batches of one measurement.
#pragma once

#include <span>
#include <vector>

namespace tutti::bench {

struct Summary {
  double min = 0;
  double median = 0;
  double p95 = 0;  // nearest rank: a value that was measured
  double p99 = 0;
};

// Of at least one value.
Summary summarise(std::span<const double> values);

// Virtual machines flip between states in which a flag needs 80 or 430 ns from core to core, and
// the latency of every small message follows. `hops` are the hop times around the segments of a
// measurement: segment i lies between hops[i] and hops[i + 1]. Keeps the segments in the state that
// most segments were in; a segment with a flip is in none. Keeps all if the hop times are alike or
// unknown (zeros), or if no segment is in one state.
struct StateFilter {
  std::vector<bool> keep;  // one per segment
  double hop_ns = 0;       // median hop of what is kept
};
StateFilter majority_state(std::span<const double> hops);

}  // namespace tutti::bench
