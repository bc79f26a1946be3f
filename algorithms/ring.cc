// Ring (bucket). The vector has p shards. For p-1 steps each rank passes a partial shard to its right
// neighbour, which adds its own copy; then for p-1 steps the finished shards go round. The executor
// moves shards in slices, so a rank forwards the beginning of a shard while its end still arrives.
//
// Rounds: 2(p-1). Messages: 2p(p-1). Every rank sends 2(p-1)/p n and reduces (p-1)/p n. Cost
// 2(p-1) alpha + 2(p-1)/p n beta + (p-1)/p n gamma. No scratch.
//
// Order: not kept: shard c is summed from rank c on, around the ring; commutative operators only.
// Bits: the same on all ranks (one owner finishes a shard); not position independent: an element's
// bracketing depends on its shard.
//
// When: large vectors, neighbour links, any p. Patarasuk and Yuan, JPDC 69(2), 2009.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_ring(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, rank = shape.rank;
  const uint32_t right = after(rank, 1, p), left = before(rank, 1, p);
  Emitter out(sink, p);
  for (uint32_t step = 1; step < p; ++step) {
    const uint32_t give = before(rank, step - 1, p), take = before(rank, step, p);
    out.send(right, output(give, give + 1));
    out.recv_reduce(left, output(take, take + 1), Side::left);
  }
  for (uint32_t step = 1; step < p; ++step) {
    const uint32_t give = before(after(rank, 1, p), step - 1, p);
    const uint32_t take = before(after(rank, 1, p), step, p);
    out.send(right, output(give, give + 1));
    out.recv(left, output(take, take + 1));
  }
}

std::string ring_applies(const Request& request) {
  if (!request.ordered) return {};
  return "ring adds in an order that depends on the chunk, so it cannot serve an operator that is "
         "not commutative";
}

const Algorithm ring{"ring", Collective::allreduce,
                     "partial shares travel around a ring and grow, then finished ones go round",
                     emit_ring, ring_applies};

}  // namespace tutti
