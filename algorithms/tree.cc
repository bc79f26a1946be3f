// Tree allreduce (binomial reduce to rank 0, then binomial broadcast): in round i every rank whose
// bit i is its lowest set bit sends its partial result to rank - 2^i and is done; the broadcast
// goes the same edges back. Partners that do not exist are skipped.
//
// Cost, with L = ceil(log2 p): 2L rounds, exactly, since rank 0 receives L messages and then sends
// L. With p-1 ports still L rounds up, since a rank adds its children one after another, but only
// floor(log2 p) down, the most bits that a rank below p has set. 2(p-1) messages; rank 0 sends Ln
// bytes and reduces Ln. Time 2L(a + nb) + Lnc.
// Bits: rank order kept, because a partial covers contiguous ranks and the lower stays on the left;
// rank 0 computes and the others copy; every element has the same bracketing, of depth L.
// Use: short vectors on many ranks and networks with thin upper levels, for only p-1 messages go
// each way. Folklore; Thakur et al. 2005.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_tree(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, 1);
  climb_binomial_tree(emit, shape.rank, 0, shape.nranks);
  descend_binomial_tree(emit, shape.rank, 0, shape.nranks);
}

}  // namespace

Algorithm tree() {
  return {"tree",
          Collective::allreduce,
          "partial results climb a binomial tree to rank 0, the result goes back down",
          emit_tree,
          serves_everything,
          {"2L", "L+l", "2(p-1)", "L", "L"}};
}

}  // namespace tutti
