// What:   Every rank sends its vector to the root, which folds all of them in rank order.
// Cost:   p-1 rounds, 1 with p-1 ports; p-1 messages; a rank sends n bytes, the root reduces
//         (p-1)n. Time (p-1)(a + nb + nc).
// Bits:   Rank order kept, whatever the root; one tree for all elements and roots; all levels.
// When:   Few ranks, or operators that are not commutative. Folklore ("linear").
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_reduce_flat(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, root = shape.root;
  if (shape.rank != root) {
    schedule::Emitter emit(sink, 1);
    emit.send(root, schedule::output(0, 1));
    return;
  }
  schedule::Emitter emit(sink, 1, p - 1);
  collect_and_fold(emit, root, p, shape.bracketing);
}

}  // namespace

Algorithm reduce_flat() {
  return {"flat",
          Collective::reduce,
          "every rank sends its vector to the root, which combines them",
          emit_reduce_flat,
          serves_everything,
          {"p-1", "[p>1]", "p-1", "[p>1]", "p-1"},
          Path::one_hop};
}

}  // namespace tutti
