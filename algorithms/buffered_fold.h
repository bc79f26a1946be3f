// A fold over buffered contributions, for an owner that has the operands of all ranks.
#pragma once

#include "algorithms/patterns.h"
#include "lib/schedule/emit.h"

namespace tutti {

// x_0 op x_1 op ... op x_{n-1}, with x_k at place(k); the result is at `into`, one of these places.
// The bracketing does not depend on `into`: else each owner would have another tree.
template <class Place>
void fold_in_order(schedule::Emitter& emit, uint32_t n, const Place& place, schedule::Range into,
                   schedule::Bracketing bracketing) {
  using schedule::Side;
  bracketed(bracketing, n, place, [&](schedule::Range left, schedule::Range right) {
    if (right == into) {
      emit.reduce(right, left, Side::left);
      return right;
    }
    emit.reduce(left, right, Side::right);
    return left;
  });
}

// Chunks [begin, end) of the output become the fold over the ranks: x_rank is this rank's own
// vector, in the output; that of `peer` is in scratch row peer_position(rank, peer).
inline void fold_in_rank_order(schedule::Emitter& emit, uint32_t rank, uint32_t nranks,
                               uint32_t begin, uint32_t end, schedule::Bracketing bracketing) {
  const schedule::Range own = schedule::output(begin, end);
  const auto place = [&](uint32_t k) {
    return k == rank ? own : emit.scratch(peer_position(rank, k), begin, end);
  };
  fold_in_order(emit, nranks, place, own, bracketing);
}

}  // namespace tutti
