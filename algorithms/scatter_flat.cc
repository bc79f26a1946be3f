// What:   The root sends every rank its block.
// Cost:   p-1 rounds, 1 with p-1 ports; p-1 messages; the root sends (p-1)/p n bytes. Time
//         (p-1)a + (p-1)/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   Long blocks, few ranks: every byte moves once. Folklore.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_scatter_flat(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank, root = shape.root;
  schedule::Emitter emit(sink, p);
  if (r != root) {
    emit.recv(root, schedule::output(r, r + 1));
    return;
  }
  for (uint32_t s = 1; s < p; ++s) {
    const uint32_t to = up(root, s, p);
    emit.send(to, schedule::output(to, to + 1));
  }
}

}  // namespace

Algorithm scatter_flat() {
  return {"flat",
          Collective::scatter,
          "the root sends every rank its block",
          emit_scatter_flat,
          serves_everything,
          {"p-1", "[p>1]", "p-1", "(p-1)/p", "0"},
          Path::one_hop};
}

}  // namespace tutti
