// Binomial broadcast: ranks are renumbered from the root, v = rank - root mod p; v receives from
// the rank that has v's lowest set bit cleared and then sends to v + 2^i for every i below that
// bit, the farthest first. Partners that do not exist are skipped.
//
// Cost: ceil(log2 p) rounds, floor(log2 p) with p-1 ports (the most bits that a number below p has
// set); p-1 messages; the root sends ceil(log2 p) vectors. Time ceil(log2 p)(a + nb).
// Bits: everybody copies the root's.
// Use: short vectors. Folklore.
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
          {"L", "l", "p-1", "L", "0"}};
}

}  // namespace tutti
