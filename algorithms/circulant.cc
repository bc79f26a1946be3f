// What:   Bruck's allgather run backwards, which is a reduce-scatter, then Bruck's allgather: every
//         rank talks to those at distance 2^i in turn, whatever the number of ranks.
// Cost:   2L rounds, L = ceil(log2 p), for some p one less with p-1 ports; 2p*L messages; every
//         rank sends 2(p-1)/p n, reduces (p-1)/p n bytes, the least. Time 2La + (p-1)/p n(2b + c).
// Bits:   The tree is rotated by the chunk; beyond two ranks commutative operators only; one rank
//         finishes a chunk, the others copy; fast.
// When:   Medium and long vectors where p is no power of two. Traeff 2024, Optimal non-pipelined
//         reduce-scatter and allreduce (with other distances); Bruck et al. 1997.
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
