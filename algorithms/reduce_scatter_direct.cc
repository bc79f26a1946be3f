// What:   Every rank sends each owner its part at once, and owners fold what they have.
// Cost:   p-1 rounds, 1 with p-1 ports; p(p-1) messages; every rank sends and reduces (p-1)/p n
//         bytes, both the least possible. Time (p-1)a + (p-1)/p n(b + c).
// Bits:   Rank order kept; every owner folds in rank order, whatever its own rank, so one tree for
//         all blocks; all levels.
// When:   Few ranks with a path for every pair; operators that are not commutative. The first half
//         of two-shot; pairwise in Thakur et al. 2005, Optimization of collectives in MPICH.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_reduce_scatter_direct(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks;
  schedule::Emitter emit(sink, p, p - 1);
  direct_reduce_scatter(emit, shape.rank, p, shape.bracketing);
}

}  // namespace

Algorithm reduce_scatter_direct() {
  return {"direct",
          Collective::reduce_scatter,
          "every rank sends each owner its part at once, and owners fold in rank order",
          emit_reduce_scatter_direct,
          serves_everything,
          {"p-1", "[p>1]", "p(p-1)", "(p-1)/p", "(p-1)/p"},
          Path::one_hop};
}

}  // namespace tutti
