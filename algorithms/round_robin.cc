// Round-robin allreduce (rotated direct reduce-scatter and allgather): in step s = 1..p-1 rank r
// sends chunk r+s to its owner, rank r+s, and receives its own chunk's part from rank r-s; then the
// finished chunks go round in the same rotation. Every step is a permutation of the ranks.
//
// Cost: 2(p-1) rounds, 2 with p-1 ports; 2p(p-1) messages of n/p bytes; every rank sends 2(p-1)/p n
// and reduces (p-1)/p n. Time 2(p-1)a + 2(p-1)/p nb + (p-1)/p nc. The messages are those of
// two-shot, scheduled for one port: a send and a receive at a time, step by step.
// Bits: as two-shot: rank order kept, the same bits everywhere, every element the same bracketing,
// because the owner buffers the parts, which come in rotated order, and folds from x_0 upward.
// Use: networks with one port a rank and a full crossbar, which each step loads evenly. Zhao &
// Canny 2013 (arXiv:1312.3020) call this network round-robin; messages shrink as n/p while p grows.
#include "algorithms/buffered_fold.h"
#include "algorithms/list.h"

namespace tutti {

namespace {

void emit_round_robin(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, p, p - 1);
  for (uint32_t s = 1; s < p; ++s) {
    const uint32_t to = up(r, s, p), from = down(r, s, p);
    emit.send(to, schedule::output(to, to + 1));
    emit.recv(from, emit.scratch(peer_position(r, from), r, r + 1));
  }
  fold_in_rank_order(emit, r, p, r, r + 1, shape.bracketing);
  for (uint32_t s = 1; s < p; ++s) {
    const uint32_t to = up(r, s, p), from = down(r, s, p);
    emit.send(to, schedule::output(r, r + 1));
    emit.recv(from, schedule::output(from, from + 1));
  }
}

}  // namespace

Algorithm round_robin() {
  return {"round-robin",
          Collective::allreduce,
          "two-shot in steps: each rank sends to every other in turn, one at a time",
          emit_round_robin,
          serves_everything,
          {"2(p-1)", "2[p>1]", "2p(p-1)", "2(p-1)/p", "(p-1)/p"}};
}

}  // namespace tutti
