// What:   After round i every rank holds the sum over itself and the 2^i - 1 ranks before it, sends
//         it 2^i ranks on, and puts what comes from 2^i ranks back on its left.
// Cost:   L = ceil(log2 p) rounds, with any number of ports; p*L - 2^L + 1 messages; rank 0 sends
//         and the last rank reduces L n bytes. Time L(a + n(b + c)).
// Bits:   Rank order kept, one tree for all elements, not that of chain; fast, layout.
// When:   Short vectors. Hillis & Steele 1986, Data parallel algorithms.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_scan_doubling(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks;
  schedule::Emitter emit(sink, 1, 1);
  doubling_scan(emit, shape.rank, 0, p);
}

}  // namespace

Algorithm scan_doubling() {
  return {"doubling",         Collective::scan,  "sums over 1, 2, 4, ... ranks are sent as far on",
          emit_scan_doubling, serves_everything, {"L", "L", "p*L-2^L+1", "L", "L"}};
}

}  // namespace tutti
