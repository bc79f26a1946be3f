// What:   Every rank sends its whole vector to every other, in step s to rank r+s, so that nobody
//         is everybody's first target, and folds all p vectors itself.
// Cost:   p-1 rounds, 1 with p-1 ports; p(p-1) messages; every rank sends and reduces (p-1)n bytes.
//         Time (p-1)(a + nb + nc), or a + (p-1)n(b + c) with p-1 ports.
// Bits:   Rank order kept; all ranks fold in rank order (never beginning with their own vector), so
//         one tree for all ranks and elements; all levels.
// When:   A few KiB on few ranks, where saved latencies are worth the extra bytes. Folklore
//         ("one-shot" in GPU libraries).
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
          {"p-1", "[p>1]", "p(p-1)", "p-1", "p-1"},
          Path::one_shot};
}

}  // namespace tutti
