// What:   Blocks go down the binomial tree over the ranks numbered from the root, each rank passing
//         on those of its subtrees, the largest first.
// Cost:   L = ceil(log2 p) rounds, floor(log2 p) with p-1 ports; p-1 messages; the root sends
//         (p-1)/p n bytes. Time La + (p-1)/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   Short blocks whose lengths all ranks know. Folklore.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_scatter_binomial(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, shape.nranks);
  binomial_scatter(emit, shape.rank, shape.root, shape.nranks);
}

}  // namespace

Algorithm scatter_binomial() {
  return {"binomial",
          Collective::scatter,
          "blocks go down a binomial tree, each rank passing on those of its subtrees",
          emit_scatter_binomial,
          lengths_known_to_all,
          {"L", "l", "p-1", "(p-1)/p", "0"}};
}

}  // namespace tutti
