// Binomial reduce: partial results climb a binomial tree to the root, as in the first half of
// `tree`.
//
// Cost: L = ceil(log2 p) rounds with one port and with many; p-1 messages; every rank but the root
// sends its vector once, the root receives and reduces L n. Time L(a + nb + nc).
// Bits: the tree is moved round to the root; so rank order is kept for root 0 only, and the bits
// depend on the root. The same tree for every element.
// Use: small vectors, many ranks. Folklore; Thakur et al. 2005.
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
