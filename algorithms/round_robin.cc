// What:   Two-shot in steps that are permutations: in step s rank r sends rank r+s its part of that
//         rank's chunk and receives from r-s; finished chunks then go round in the same rotation.
// Cost:   2(p-1) rounds, 2 with p-1 ports; 2p(p-1) messages; every rank sends 2(p-1)/p n and
//         reduces (p-1)/p n bytes. Time 2(p-1)a + 2(p-1)/p nb + (p-1)/p nc.
// Bits:   As two-shot: rank order kept, since the owner buffers the parts, which come in rotated
//         order; one tree for all ranks and elements; all levels.
// When:   One port per rank on a full crossbar, which each step loads evenly, unless n/p is a short
//         message. Zhao & Canny 2013, Sparse Allreduce (arXiv:1312.3020).
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
