// What:   In round i every rank whose lowest set bit is 2^i sends its partial result to rank - 2^i;
//         the result goes from rank 0 back down the same binomial tree.
// Cost:   2L rounds, L+l with p-1 ports, L = ceil(log2 p), l = floor(log2 p); 2(p-1) messages; rank
//         0 sends and reduces L n bytes. Time 2L(a + nb) + Lnc.
// Bits:   Rank order kept, as partials cover contiguous ranks; rank 0 computes and the others copy,
//         so one tree for all; fast, layout, and canonical where p = 2^j or 2^k - 2^j.
// When:   Short vectors on many ranks, and networks with thin upper levels: only p-1 messages go
//         each way. Folklore; Thakur et al. 2005, Optimization of collectives in MPICH.
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
          // With p-1 ports still L up, as a rank adds its children one after another; l down, the
          // most bits that a rank below p has set.
          {"2L", "L+l", "2(p-1)", "L", "L"}};
}

}  // namespace tutti
