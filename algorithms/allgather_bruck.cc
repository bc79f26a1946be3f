// What:   Each round every rank gets as many blocks as it has, those that follow its own round the
//         ring, from the rank that has them; the last round brings the rest.
// Cost:   L = ceil(log2 p) rounds, for some p one less with p-1 ports; p*L messages; every rank
//         sends (p-1)/p n bytes, both the least possible. Time La + (p-1)/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   Short blocks, any number of ranks. Bruck et al. 1997, Efficient algorithms for all-to-all
//         communications.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_allgather_bruck(const schedule::Shape& shape, schedule::Sink& sink) {
  schedule::Emitter emit(sink, shape.nranks);
  // Blocks land where they belong, so nothing is rotated afterwards.
  bruck_allgather(emit, shape.rank, shape.nranks);
}

}  // namespace

Algorithm allgather_bruck() {
  return {"bruck",
          Collective::allgather,
          "each round every rank gets as many blocks as it has from the rank that follows them",
          emit_allgather_bruck,
          serves_everything,
          {"L", "L-[e>0][3q+1>2p]", "p*L", "(p-1)/p", "0"}};
}

}  // namespace tutti
