// Circulant allreduce: Bruck's allgather and before it the same backwards, which is a
// reduce-scatter. Every rank talks to those at distance 2^i in turn, whatever their number.
//
// Cost: 2 ceil(log2 p) rounds; 2p ceil(log2 p) messages; every rank sends 2(p-1)/p n and reduces
// (p-1)/p n: all three least possible but for a factor of two in the rounds. Time 2La + 2(p-1)/p nb
// + (p-1)/p nc.
// Bits: one rank finishes each chunk and the others copy. The bracketing turns with the chunk, so
// it depends on where an element stands, and beyond two ranks rank order is lost.
// Use: medium and long vectors on rank counts that are no powers of two. Traeff 2024 (with other
// distances), Bruck et al. 1997.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_circulant(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, shape.nranks);
  bruck_reduce_scatter(emit, shape.rank, shape.nranks);
  bruck_allgather(emit, shape.rank, shape.nranks);
}

}  // namespace

Algorithm circulant() {
  return {"circulant",
          Collective::allreduce,
          "chunks are gathered up and handed out with partners at distance 1, 2, 4, ..., any "
          "number of ranks",
          emit_circulant,
          two_ranks_where_ordered,
          {"2L", "2L-[e>0][3q+1>2p]", "2p*L", "2(p-1)/p", "(p-1)/p"}};
}

}  // namespace tutti
