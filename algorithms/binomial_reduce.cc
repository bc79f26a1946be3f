// Binomial reduce: partial results climb a binomial tree to the root, as in the first half of
// `tree`.
//
// Cost: L = ceil(log2 p) rounds with one port and with many; p-1 messages; every rank but the root
// sends its vector once, the root receives and reduces L n. Time L(a + nb + nc). Bits: the tree is
// moved round so that the root is its root; so rank order is kept for root 0 only, and the tree of
// an element depends on the root. The same for every element. Use: small vectors, many ranks.
// Folklore; Thakur et al. 2005.
#include "algorithms/list.h"
#include "algorithms/patterns.h"
#include "lib/schedule/emit.h"

namespace tutti {

namespace {

void emit_binomial_reduce(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, root = shape.root;
  const uint32_t place = place_below(root, shape.rank, p);
  const schedule::Range vector = schedule::output(0, 1);
  schedule::Emitter emit(sink, 1);
  for (uint32_t i = 0; i < binomial_levels(place, p); ++i) {
    const uint32_t child = place + (uint32_t{1} << i);
    if (child < p) emit.recv_reduce(rank_below(root, child, p), vector, schedule::Side::right);
  }
  if (place != 0) emit.send(rank_below(root, binomial_parent(place), p), vector);
}

std::string keeps_order_for_root_0(const Request& request) {
  return request.ordered && request.root != 0 ? "it keeps rank order only towards root 0" : "";
}

}  // namespace

Algorithm binomial_reduce() {
  return {"binomial",
          Collective::reduce,
          "partial results climb a binomial tree to the root",
          emit_binomial_reduce,
          keeps_order_for_root_0,
          {"L", "L", "p-1", "[p>1]", "L"}};
}

}  // namespace tutti
