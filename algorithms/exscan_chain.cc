// What:   Rank r gets the sum over the ranks before it from rank r-1, adds its own and sends that
//         on.
// Cost:   p-1 rounds, with any number of ports; p-1 messages; a rank sends n bytes and all but the
//         ends reduce n. Time (p-1)(a + n(b + c)), of long vectors, in slices, n(b + c).
// Bits:   Rank order kept, bracketed from the left, one tree for all elements; fast, layout
//         (canonical up to 4 ranks, exact up to 3).
// When:   Long vectors. Folklore.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_exscan_chain(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, 1, 1);
  const schedule::Range result = schedule::output(0, 1), next = emit.scratch(0, 0, 1);
  if (r == 0) {
    if (p > 1) emit.send(1, result);
    return;
  }
  if (r + 1 < p) emit.copy(next, schedule::input(0, 1));
  emit.recv(r - 1, result);
  if (r + 1 < p) {
    emit.reduce(next, result, schedule::Side::left);
    emit.send(r + 1, next);
  }
}

}  // namespace

Algorithm exscan_chain() {
  return {"chain",
          Collective::exscan,
          "sums go from rank to rank, each keeping what comes and adding its own to what goes",
          emit_exscan_chain,
          serves_everything,
          {"p-1", "p-1", "p-1", "[p>1]", "[p>2]"}};
}

}  // namespace tutti
