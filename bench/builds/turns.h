// The method: in a turn every cell runs base, new, new, base or new, base, base, new, a batch of
// calls each, with the hop time measured before and after. The ranks are started anew many times,
// because times also differ from start to start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/builds/cells.h"
#include "bench/builds/library.h"
#include "bench/builds/team.h"
#include "bench/live.h"

namespace tutti::bench::builds {

struct Method {
  int nranks = 2;
  size_t turns = 0;     // of a cell in each start; 0: as many as fit into `seconds`
  double seconds = 20;  // for all starts together
  size_t starts = 40;   // how often the ranks are started anew
  double least_batch_us = 50;
  bool symmetric = false;  // vectors in memory of tutti_mem_alloc()
  Data data = Data::still;
};

// One cell in one turn; times are of one call, the mean of the two batches, slowest rank's.
struct Sample {
  uint32_t cell;
  uint32_t start;
  double hop_before_ns, hop_after_ns;  // 0: unknown
  double base_us, new_us;
};

// In the order in which they were measured. Throws Failure.
std::vector<Sample> measure(const LibraryCopy& base, const LibraryCopy& next,
                            const std::vector<Cell>& cells, const Method& method);

}  // namespace tutti::bench::builds
