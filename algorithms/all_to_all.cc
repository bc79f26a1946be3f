// All-to-all allreduce (direct exchange of full vectors, "one-shot"): every rank sends its vector
// to every other, holds all p of them, and reduces them itself.
//
// Cost: p-1 rounds, 1 with p-1 ports; p(p-1) messages; every rank sends (p-1)n bytes and reduces
// (p-1)n. Time (p-1)(a + nb + nc), or a + (p-1)n(b + c) with p-1 ports. In step s rank r sends to
// r+s and receives from r-s, so that nobody is everybody's first target.
// Bits: rank order kept and the same bits everywhere because every rank folds from x_0 upward;
// a fold that began with the own vector would give p different bracketings. The same tree for every
// element.
// Use: a few KiB on few ranks, where saved latencies are worth the extra bytes. Folklore; GPU
// libraries call it one-shot.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_all_to_all(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, 1, p - 1);
  exchange_and_fold(emit, 0, r, p, shape.bracketing);
}

}  // namespace

Algorithm all_to_all() {
  return {"all-to-all",
          Collective::allreduce,
          "every rank sends its whole vector to every other and reduces all of them itself",
          emit_all_to_all,
          serves_everything,
          {"p-1", "[p>1]", "p(p-1)", "p-1", "p-1"}};
}

}  // namespace tutti
