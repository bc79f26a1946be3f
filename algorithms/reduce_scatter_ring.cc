// What:   Partly reduced blocks go round the ring, each rank adding its part; block r ends at rank
//         r.
// Cost:   p-1 rounds, with any number of ports; p(p-1) messages; every rank sends and reduces
//         (p-1)/p n bytes. Time (p-1)(a + n/p (b + c)).
// Bits:   Block c is added up from x_{c+1} round the ring, so each block has a tree of its own;
//         beyond two ranks commutative operators only; fast.
// When:   Long vectors where only neighbours should talk. Patarasuk & Yuan 2009, Bandwidth optimal
//         all-reduce algorithms: the first half of the ring allreduce.
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
