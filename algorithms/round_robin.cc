// Round-robin (in the sense of Zhao and Canny: each node sends to each other node in turn). In step s
// rank r sends shard r+s to its owner and receives its own shard's copy from rank r-s; then the same
// rotation hands out the finished shards. It is two-shot scheduled for one port: every step is a
// permutation and no step begins before the one before it.
//
// Rounds: 2(p-1). Messages: 2p(p-1). Every rank sends 2(p-1)/p n and reduces (p-1)/p n. Cost
// 2(p-1) alpha + 2(p-1)/p n beta + (p-1)/p n gamma. Scratch n.
//
// Order: kept (the owner buffers and folds by rank). Bits: the same on all ranks; position independent.
//
// When: medium and large vectors on a crossbar with one port; messages shrink as n/p while their
// number grows as p. Zhao and Canny, arXiv:1312.3020.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_round_robin(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, rank = shape.rank;
  Emitter out(sink, p, p);
  for (uint32_t step = 1; step < p; ++step) {
    const uint32_t owner = after(rank, step, p), from = before(rank, step, p);
    out.send(owner, output(owner, owner + 1));
    out.recv(from, out.scratch(from, rank, rank + 1));
  }
  fold_in_rank_order(out, rank, p, rank, rank + 1);
  for (uint32_t step = 1; step < p; ++step) {
    const uint32_t owner = before(rank, step, p);
    out.send(after(rank, step, p), output(rank, rank + 1));
    out.recv(owner, output(owner, owner + 1));
  }
}

const Algorithm round_robin{
    "round-robin", Collective::allreduce,
    "shares go to their owners in rotating pairs, one a step, and come back the same way",
    emit_round_robin, serves_everything};

}  // namespace tutti
