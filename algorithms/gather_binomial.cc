// What:   Blocks climb the binomial tree over the ranks numbered from the root, each rank sending
//         those of its subtree as one message.
// Cost:   L = ceil(log2 p) rounds, l = floor(log2 p) with p-1 ports; p-1 messages; the busiest rank
//         sends max(2^l/2, p-2^l)/p n bytes, its subtree's. Time La + (p-1)/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   Short blocks whose lengths all ranks know. Folklore.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_gather_binomial(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, shape.nranks);
  const BinomialTree tree(shape.rank, shape.root, shape.nranks);
  for (uint32_t level = 0; level < tree.levels(); ++level) {
    if (tree.has_child(level)) emit.recv(tree.child(level), tree.blocks_of_child(level));
  }
  if (shape.rank != shape.root) emit.send(tree.parent(), tree.blocks());
}

}  // namespace

Algorithm gather_binomial() {
  return {"binomial",
          Collective::gather,
          "blocks climb a binomial tree to the root, each rank adding its own",
          emit_gather_binomial,
          lengths_known_to_all,
          {"L", "l", "p-1", "(q+(2e-q)[2e>q])[p>1]/2/p", "0"}};
}

}  // namespace tutti
