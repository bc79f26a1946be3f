// What:   For p-1 steps every rank passes a partly reduced chunk to rank+1, which adds its part,
//         chunk c being finished at rank c-1; for p-1 more steps the finished chunks go round.
// Cost:   2(p-1) rounds, with any number of ports; 2p(p-1) messages; every rank sends 2(p-1)/p n
//         and reduces (p-1)/p n bytes, both the least possible. Time 2(p-1)a + (p-1)/p n(2b + c).
// Bits:   Chunk c is added up from x_c round the ring: a tree for each chunk, and beyond two ranks
//         commutative operators only; one rank finishes a chunk, the others copy; fast.
// When:   Long vectors where only neighbours should talk. Patarasuk & Yuan 2009, Bandwidth optimal
//         all-reduce algorithms; Sergeev & Del Balso 2018, Horovod.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_ring(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, p);
  ring_reduce_scatter(emit, r, p, r);
  ring_allgather(emit, r, p, up(r, 1, p));
}

}  // namespace

Algorithm ring() {
  return {"ring",
          Collective::allreduce,
          "chunks go round the ring, each rank adding its part, then go round finished",
          emit_ring,
          two_ranks_where_ordered,
          {"2(p-1)", "2(p-1)", "2p(p-1)", "2(p-1)/p", "(p-1)/p"}};
}

}  // namespace tutti
