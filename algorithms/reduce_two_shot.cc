// Two-shot reduce: every rank reduces one chunk of p, as in the first half of the allreduce of that
// name, and sends it to the root.
//
// Cost: 2(p-1) rounds, 2 with p-1 ports; (p-1)(p+1) messages of n/p bytes; every rank but the root
// sends n bytes, and all reduce (p-1)/p n. Time 2(p-1)a + 2(p-1)/p nb + (p-1)/p nc with one port.
// Bits: rank order kept and one tree for every element and root, because each owner buffers what it
// gets and folds from x_0 upward.
// Use: large vectors: the reduction is shared out. Thakur et al. 2005, with a direct exchange.
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
