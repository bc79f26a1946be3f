// What:   Every rank reduces one chunk of p, to which all send their part, as in the first half of
//         the allreduce of that name, and sends it to the root.
// Cost:   2(p-1) rounds, 2 with p-1 ports; (p-1)(p+1) messages; every rank but the root sends n and
//         all reduce (p-1)/p n bytes. Time 2(p-1)a + 2(p-1)/p nb + (p-1)/p nc.
// Bits:   Rank order kept; each owner buffers the parts and folds in rank order, so one tree for
//         all elements and roots; all levels.
// When:   Long vectors: the reduction is shared out. Thakur et al. 2005, Optimization of
//         collectives in MPICH, with a direct exchange.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_reduce_two_shot(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank, root = shape.root;
  schedule::Emitter emit(sink, p, p - 1);
  direct_reduce_scatter(emit, r, p, shape.bracketing);
  if (r != root) {
    emit.send(root, schedule::output(r, r + 1));
    return;
  }
  for (uint32_t s = 1; s < p; ++s) {
    const uint32_t owner = down(root, s, p);
    emit.recv(owner, schedule::output(owner, owner + 1));
  }
}

}  // namespace

Algorithm reduce_two_shot() {
  return {"two-shot",
          Collective::reduce,
          "every rank reduces one chunk, to which all send their part, and sends it to the root",
          emit_reduce_two_shot,
          serves_everything,
          {"2(p-1)", "2[p>1]", "(p-1)(p+1)", "[p>1]", "(p-1)/p"}};
}

}  // namespace tutti
