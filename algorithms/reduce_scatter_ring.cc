// Ring reduce-scatter: partly reduced blocks go round, each rank adding its part; block r ends at
// rank r.
//
// Cost: p-1 rounds, however many ports; p(p-1) messages of n/p; every rank sends and reduces
// (p-1)/p n. Time (p-1)(a + n/p (b + c)). Bits: block c is added up from x_{c+1} round the ring:
// the bracketing depends on the block, and beyond two ranks rank order is lost. Use: long vectors
// where only neighbours should talk. The first half of the ring allreduce.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_reduce_scatter_ring(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, shape.nranks);
  ring_reduce_scatter(emit, shape.rank, shape.nranks, down(shape.rank, 1, shape.nranks));
}

}  // namespace

Algorithm reduce_scatter_ring() {
  return {"ring",
          Collective::reduce_scatter,
          "blocks go round the ring, each rank adding its part",
          emit_reduce_scatter_ring,
          two_ranks_where_ordered,
          {"p-1", "p-1", "p(p-1)", "(p-1)/p", "(p-1)/p"}};
}

}  // namespace tutti
