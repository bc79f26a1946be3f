// What:   Bruck's allgather backwards: each round a rank hands on half of the blocks that it has
//         parts of, to the rank at distance 2^i, the longest distance first.
// Cost:   L = ceil(log2 p) rounds, with any number of ports; p*L messages; every rank sends and
//         reduces (p-1)/p n bytes, all the least possible. Time La + (p-1)/p n(b + c).
// Bits:   The tree is rotated by the block; beyond two ranks commutative operators only; fast.
// When:   Short and medium vectors, any number of ranks. Traeff 2024, Optimal non-pipelined
//         reduce-scatter and allreduce (with other distances).
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_reduce_scatter_circulant(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, shape.nranks);
  bruck_reduce_scatter(emit, shape.rank, shape.nranks);
}

}  // namespace

Algorithm reduce_scatter_circulant() {
  return {"circulant",
          Collective::reduce_scatter,
          "half of the blocks are handed on in each round, to ranks at distance ..., 4, 2, 1",
          emit_reduce_scatter_circulant,
          two_ranks_where_ordered,
          {"L", "L", "p*L", "(p-1)/p", "(p-1)/p"}};
}

}  // namespace tutti
