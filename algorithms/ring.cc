// Ring allreduce: p chunks; for p-1 steps every rank passes a partly reduced chunk to rank+1, which
// adds its own part, so that chunk c is finished at rank c-1; for p-1 more steps the finished
// chunks go round. A long chunk is pipelined in slices by the executor.
//
// Cost: 2(p-1) rounds, however many ports; 2p(p-1) messages of n/p bytes; every rank sends 2(p-1)/p
// n and reduces (p-1)/p n, both of which are least possible. Time 2(p-1)a + 2(p-1)/p nb + (p-1)/p
// nc. Bits: one rank finishes each chunk and the others copy, so all have the same bits. Chunk c is
// added up from x_c round the ring, so the bracketing depends on where an element stands, and
// beyond two ranks the order is not rank order: commutative operators only. Rank 0 puts its own
// part on the left, as the lower rank, so that two ranks keep order. Use: long vectors where only
// neighbours should talk. Patarasuk & Yuan 2009; Horovod and NCCL made it known.
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
