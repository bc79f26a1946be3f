// What:   Every rank sends each other rank its block, in step s to rank r+s, so that nobody gets
//         two at a time.
// Cost:   p-1 rounds, 1 with p-1 ports; p(p-1) messages; every rank sends (p-1)/p n bytes, the
//         least possible. Time (p-1)a + (p-1)/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   All but short blocks. Folklore ("pairwise" in most libraries).
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_alltoall_direct(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, p * p);
  for (uint32_t s = 1; s < p; ++s) {
    const uint32_t to = up(r, s, p), from = down(r, s, p);
    emit.send(to, schedule::output(r * p + to, r * p + to + 1));
    emit.recv(from, schedule::output(from * p + r, from * p + r + 1));
  }
}

}  // namespace

Algorithm alltoall_direct() {
  return {"direct",
          Collective::alltoall,
          "every rank sends each other its block, in step s to the rank s behind it",
          emit_alltoall_direct,
          serves_everything,
          {"p-1", "[p>1]", "p(p-1)", "(p-1)/p", "0"},
          Path::one_hop};
}

}  // namespace tutti
