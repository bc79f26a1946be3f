// What:   Direct reduce-scatter, then direct allgather: every rank sends each owner its part of a
//         chunk, owners fold the p parts and send the finished chunk to everyone.
// Cost:   2(p-1) rounds, 2 with p-1 ports; 2p(p-1) messages; every rank sends 2(p-1)/p n, reduces
//         (p-1)/p n bytes, the least possible. With p-1 ports time 2a + 2(p-1)/p nb + (p-1)/p nc.
// Bits:   Rank order kept; each owner folds in rank order, whatever its own rank, and the others
//         copy, so one tree for all ranks and elements; all levels; narrow types round once.
// When:   Medium and long vectors, a path for every pair, as in shared memory. van de Geijn 1994,
//         On global combine operations; Thakur et al. 2005, Optimization of collectives in MPICH.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_two_shot(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, p, p - 1);
  direct_reduce_scatter(emit, r, p, shape.bracketing);
  direct_allgather(emit, r, p);
}

}  // namespace

Algorithm two_shot() {
  return {"two-shot",
          Collective::allreduce,
          "every rank reduces one chunk, to which all send their part at once, and hands it out",
          emit_two_shot,
          serves_everything,
          {"2(p-1)", "2[p>1]", "2p(p-1)", "2(p-1)/p", "(p-1)/p"},
          Path::two_shot};
}

}  // namespace tutti
