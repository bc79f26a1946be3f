// What:   Blocks go round the ring, each rank passing on what it has just got.
// Cost:   p-1 rounds, with any number of ports; p(p-1) messages; every rank sends (p-1)/p n bytes.
//         Time (p-1)a + (p-1)/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   Long blocks where only neighbours should talk. Folklore; the second half of the ring
//         allreduce.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_allgather_ring(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, shape.nranks);
  ring_allgather(emit, shape.rank, shape.nranks, shape.rank);
}

}  // namespace

Algorithm allgather_ring() {
  return {"ring",
          Collective::allgather,
          "blocks go round the ring",
          emit_allgather_ring,
          serves_everything,
          {"p-1", "p-1", "p(p-1)", "(p-1)/p", "0"}};
}

}  // namespace tutti
