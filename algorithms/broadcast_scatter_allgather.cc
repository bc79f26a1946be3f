// What:   The root scatters p chunks down a binomial tree, then they go round the ring, the root
//         only sending.
// Cost:   L+p-1 rounds, l+p-1 with p-1 ports, L = ceil(log2 p), l = floor(log2 p); p(p-1) messages;
//         the root sends 2(p-1)/p n bytes, nobody more. Time (L+p-1)a + 2(p-1)/p nb.
// Bits:   Everybody copies the root's vector: all levels.
// When:   Long vectors. van de Geijn 1994, On global combine operations.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_broadcast_scatter_allgather(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank, root = shape.root;
  schedule::Emitter emit(sink, p);
  binomial_scatter(emit, r, root, p);
  const uint32_t next = up(r, 1, p), previous = down(r, 1, p);
  for (uint32_t s = 0; s + 1 < p; ++s) {
    const uint32_t out = down(r, s, p), in = down(r, s + 1, p);
    if (next != root) emit.send(next, schedule::output(out, out + 1));
    if (r != root) emit.recv(previous, schedule::output(in, in + 1));
  }
}

}  // namespace

Algorithm broadcast_scatter_allgather() {
  return {"scatter-allgather",
          Collective::broadcast,
          "the root scatters the vector, and the chunks go round the ring",
          emit_broadcast_scatter_allgather,
          serves_everything,
          {"L+p-1", "l+p-1", "p(p-1)", "2(p-1)/p", "0"}};
}

}  // namespace tutti
