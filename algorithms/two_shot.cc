// Two-shot allreduce (direct reduce-scatter, then direct allgather): chunk j belongs to rank j;
// every rank sends each owner its part, the owner reduces the p parts, then sends the finished
// chunk to everyone. Each of the two phases is posted as a whole: all sends, then all receives.
//
// Cost: 2(p-1) rounds, 2 with p-1 ports; 2p(p-1) messages of n/p bytes; every rank sends 2(p-1)/p n
// and reduces (p-1)/p n, both of which are least possible. Time 2a + 2(p-1)/p nb + (p-1)/p nc with
// p-1 ports.
// Bits: rank order kept; one owner computes each chunk and the others copy; every owner folds from
// x_0 upward, so every element has the same bracketing. (Starting at the owner's own rank would
// not.) Use: medium and long vectors where every pair has its own path, shared memory above all;
// the owner sees all operands at once, the best case for rounding. van de Geijn 1994, Thakur et al.
// 2005.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_two_shot(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, p, p - 1);
  direct_reduce_scatter(emit, r, p, shape.bracketing);
  direct_allgather(emit, r, p);
}

}  // namespace

Algorithm two_shot() {
  return {"two-shot",
          Collective::allreduce,
          "every rank reduces one chunk, to which all send their part at once, and hands it out",
          emit_two_shot,
          serves_everything,
          {"2(p-1)", "2[p>1]", "2p(p-1)", "2(p-1)/p", "(p-1)/p"}};
}

}  // namespace tutti
