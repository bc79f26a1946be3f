// What:   Every rank sends its block to the root.
// Cost:   p-1 rounds, 1 with p-1 ports; p-1 messages; every rank but the root sends n/p bytes. Time
//         (p-1)a + (p-1)/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   Long blocks, few ranks: every byte moves once. Folklore.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_gather_flat(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank, root = shape.root;
  schedule::Emitter emit(sink, p);
  if (r != root) {
    emit.send(root, schedule::output(r, r + 1));
    return;
  }
  for (uint32_t s = 1; s < p; ++s) {
    const uint32_t from = up(root, s, p);
    emit.recv(from, schedule::output(from, from + 1));
  }
}

}  // namespace

Algorithm gather_flat() {
  return {"flat",           Collective::gather, "every rank sends its block to the root",
          emit_gather_flat, serves_everything,  {"p-1", "[p>1]", "p-1", "[p>1]/p", "0"},
          Path::one_hop};
}

}  // namespace tutti
