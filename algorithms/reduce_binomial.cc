// What:   Partial results climb a binomial tree to the root, as in the first half of the allreduce
//         `tree`.
// Cost:   L = ceil(log2 p) rounds, with any number of ports; p-1 messages; every rank but the root
//         sends n bytes, the root reduces L n. Time L(a + nb + nc).
// Bits:   The tree is rotated to the root, so rank order is kept for root 0 only and the bits
//         depend on the root; one tree for all elements; fast, layout.
// When:   Short vectors, many ranks. Folklore; Thakur et al. 2005, Optimization of collectives in
//         MPICH.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_reduce_binomial(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, 1);
  climb_binomial_tree(emit, shape.rank, shape.root, shape.nranks);
}

std::string keeps_order_for_root_0(const Query& query) {
  return query.ordered && query.root != 0 ? "it keeps rank order only towards root 0" : "";
}

}  // namespace

Algorithm reduce_binomial() {
  return {"binomial",
          Collective::reduce,
          "partial results climb a binomial tree to the root",
          emit_reduce_binomial,
          keeps_order_for_root_0,
          {"L", "L", "p-1", "[p>1]", "L"}};
}

}  // namespace tutti
