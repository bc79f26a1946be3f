// What:   Every rank sends its block to every other, all at once.
// Cost:   p-1 rounds, 1 with p-1 ports; p(p-1) messages; every rank sends (p-1)/p n bytes. Time
//         (p-1)a + (p-1)/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   Few ranks with a path for every pair, shared memory above all. Folklore; the second half
//         of two-shot.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_allgather_direct(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, shape.nranks);
  direct_allgather(emit, shape.rank, shape.nranks);
}

}  // namespace

Algorithm allgather_direct() {
  return {"direct",
          Collective::allgather,
          "every rank sends its block to every other at once",
          emit_allgather_direct,
          serves_everything,
          {"p-1", "[p>1]", "p(p-1)", "(p-1)/p", "0"},
          Path::one_hop};
}

}  // namespace tutti
