// The comparison's method: the benchmark's, with teams of processes instead of algorithms. While
// one has its turn, the others sleep in the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/live.h"
#include "bench/peers/team.h"
#include "bench/stats.h"

namespace tutti::bench {

// One team at one size.
struct PeerCell {
  bool ran = false;
  size_t calls = 0;  // per batch
  size_t batches = 0;
  size_t dropped = 0;  // in another state of the machine
  Summary us;          // one call
  uint64_t wrong = 0;
};

struct PeerRow {
  size_t bytes = 0;
  double hop_ns = 0;  // of the state that counts
  double hop_before_ns = 0, hop_after_ns = 0;
  std::vector<PeerCell> cells;  // one per team
};

// `progress` is called with the fraction of this size that is done. Teams that fail have empty
// cells.
PeerRow compare_at(std::vector<std::unique_ptr<Team>>& teams, size_t bytes, Data data,
                   double seconds, const std::function<void(double)>& progress);

}  // namespace tutti::bench
