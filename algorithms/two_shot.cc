// Two-shot (direct reduce-scatter, then direct allgather). The vector has p shards; rank r receives
// shard r from everybody, reduces it in rank order, and sends the finished shard to everybody. All
// messages of a phase are independent of one another: meant for as many ports as there are peers.
//
// Rounds: 2(p-1) one port, 2 with p-1 ports. Messages: 2p(p-1). Every rank sends 2(p-1)/p n and
// reduces (p-1)/p n. Cost 2(p-1) alpha + 2(p-1)/p n beta + (p-1)/p n gamma. Scratch n.
//
// Order: kept. Bits: the same on all ranks (one owner an element); position independent, because an
// owner folds by rank and not from its own place. The owner sees all operands at once and so rounds
// narrow floats once.
//
// When: medium and large vectors, up to some 16 ranks, full crossbars and shared memory. Recursive in
// van de Geijn 1994; the pairwise reduce-scatter of Thakur, Rabenseifner, Gropp 2005.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_two_shot(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, rank = shape.rank;
  Emitter out(sink, p, p);
  for (uint32_t step = 1; step < p; ++step) {
    const uint32_t owner = after(rank, step, p);
    out.send(owner, output(owner, owner + 1));
  }
  for (uint32_t step = 1; step < p; ++step) {
    const uint32_t from = before(rank, step, p);
    out.recv(from, out.scratch(from, rank, rank + 1));
  }
  fold_in_rank_order(out, rank, p, rank, rank + 1);
  for (uint32_t step = 1; step < p; ++step) {
    out.send(after(rank, step, p), output(rank, rank + 1));
  }
  for (uint32_t step = 1; step < p; ++step) {
    const uint32_t owner = before(rank, step, p);
    out.recv(owner, output(owner, owner + 1));
  }
}

const Algorithm two_shot{
    "two-shot", Collective::allreduce,
    "each rank reduces its share of the vector for all, then sends it to all", emit_two_shot,
    serves_everything};

}  // namespace tutti
