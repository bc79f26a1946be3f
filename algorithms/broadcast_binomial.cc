// What:   With ranks numbered from the root, v receives from v without its lowest set bit, then
//         sends to v + 2^i for each i below that bit, the farthest first.
// Cost:   L = ceil(log2 p) rounds, floor(log2 p) with p-1 ports; p-1 messages; the root sends L n
//         bytes. Time L(a + nb).
// Bits:   Everybody copies the root's vector: all levels.
// When:   Short vectors. Folklore; Thakur et al. 2005, Optimization of collectives in MPICH.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_binomial(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, 1);
  descend_binomial_tree(emit, shape.rank, shape.root, shape.nranks);
}

}  // namespace

Algorithm broadcast_binomial() {
  return {"binomial",
          Collective::broadcast,
          "whoever has the vector passes it on, so that holders double each round",
          emit_binomial,
          serves_everything,
          // l: the most bits that a number below p has set.
          {"L", "l", "p-1", "L", "0"}};
}

}  // namespace tutti
