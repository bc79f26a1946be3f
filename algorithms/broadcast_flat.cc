// What:   The root sends its vector to every other rank, in rotated order.
// Cost:   p-1 rounds, 1 with p-1 ports; p-1 messages; the root sends (p-1)n bytes. Time
//         (p-1)(a + nb).
// Bits:   Everybody copies the root's vector: all levels.
// When:   Two or three ranks, and where the root has a port for everyone. Folklore.
#include "algorithms/list.h"
#include "algorithms/patterns.h"
#include "lib/schedule/emit.h"

namespace tutti {

namespace {

void emit_flat(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, 1);
  if (shape.rank != shape.root) {
    emit.recv(shape.root, schedule::output(0, 1));
    return;
  }
  for (uint32_t s = 1; s < shape.nranks; ++s) {
    emit.send(up(shape.root, s, shape.nranks), schedule::output(0, 1));
  }
}

}  // namespace

Algorithm broadcast_flat() {
  return {"flat",       Collective::broadcast, "the root sends its vector to every other rank",
          emit_flat,    serves_everything,     {"p-1", "[p>1]", "p-1", "p-1", "0"},
          Path::one_hop};
}

}  // namespace tutti
