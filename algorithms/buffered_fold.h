// A fold over buffered contributions: what an owner does that holds the operands of all ranks.
#pragma once

#include "algorithms/patterns.h"
#include "lib/schedule/emit.h"

namespace tutti {

// Chunks [begin, end) of the output become x_0 op x_1 op ... op x_{p-1}, bracketed from the left,
// where x_rank is this rank's own vector, in the output, and the others' stand in scratch row
// peer_position(rank, peer). Starting anywhere else than at x_0 would give each owner another tree.
inline void fold_in_rank_order(schedule::Emitter& emit, uint32_t rank, uint32_t nranks,
                               uint32_t begin, uint32_t end) {
  using schedule::Side;
  const schedule::Range own = schedule::output(begin, end);
  if (rank > 0) {
    const schedule::Range lower = emit.scratch(0, begin, end);
    for (uint32_t row = 1; row < rank; ++row) {
      emit.reduce(lower, emit.scratch(row, begin, end), Side::right);
    }
    emit.reduce(own, lower, Side::left);
  }
  for (uint32_t peer = rank + 1; peer < nranks; ++peer) {
    emit.reduce(own, emit.scratch(peer_position(rank, peer), begin, end), Side::right);
  }
}

}  // namespace tutti
