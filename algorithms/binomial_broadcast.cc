// Binomial broadcast: ranks are renumbered from the root, v = rank - root mod p; v receives from
// the rank that has v's lowest set bit cleared and then sends to v + 2^i for every i below that
// bit, the farthest first. Partners that do not exist are skipped.
//
// Cost: ceil(log2 p) rounds, floor(log2 p) with p-1 ports (the most bits that a number below p has
// set); p-1 messages; the root sends ceil(log2 p) vectors. Time ceil(log2 p)(a + nb).
// Bits: everybody copies the root's.
// Use: short vectors. Folklore.
#include "algorithms/list.h"
#include "algorithms/patterns.h"
#include "lib/schedule/emit.h"

namespace tutti {

namespace {

void emit_binomial(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks;
  const schedule::Range vector = schedule::output(0, 1);
  const uint32_t v = down(shape.rank, shape.root, p);
  const auto rank_of = [&](uint32_t w) { return up(w, shape.root, p); };
  schedule::Emitter emit(sink, 1);
  if (v != 0) emit.recv(rank_of(binomial_parent(v)), vector);
  for (uint32_t i = binomial_levels(v, p); i-- > 0;) {
    const uint32_t child = v + (uint32_t{1} << i);
    if (child < p) emit.send(rank_of(child), vector);
  }
}

}  // namespace

Algorithm binomial_broadcast() {
  return {"binomial",
          Collective::broadcast,
          "whoever has the vector passes it on, so that holders double each round",
          emit_binomial,
          serves_everything,
          {"L", "l", "p-1", "L", "0"}};
}

}  // namespace tutti
