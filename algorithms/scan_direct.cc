// What:   Every rank sends its vector to all ranks after it, at once; each folds what it has.
// Cost:   p-1 rounds, 1 with p-1 ports; p(p-1)/2 messages; rank 0 sends and the last rank reduces
//         (p-1)n bytes. Time a + (p-1)n(b + c) with p-1 ports.
// Bits:   Rank order kept, one tree for all elements, that of chain; each result is one fold, so
//         narrow types round once (chain: at every rank); all levels.
// When:   Short vectors on few ranks with a path for every pair, shared memory above all. Folklore.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_scan_direct(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, 1, p - 1);
  exchange_upwards(emit, r, p);
  fold_in_rank_order(emit, r, r + 1, 0, 1, shape.bracketing);
}

}  // namespace

Algorithm scan_direct() {
  return {"direct",
          Collective::scan,
          "every rank sends its vector to all ranks after it, and folds what it gets",
          emit_scan_direct,
          serves_everything,
          {"p-1", "[p>1]", "p(p-1)/2", "p-1", "p-1"},
          Path::one_hop};
}

}  // namespace tutti
