// What:   Every rank hands its vector to the next one; those that got one run the doubling scan on
//         what they got.
// Cost:   1+M rounds, M = ceil(log2(p-1)), with any number of ports; p + (p-1)M - 2^M messages; the
//         busiest rank sends (1+M)n and the last reduces M n bytes. Time about (1+M)(a + nb) + Mnc.
// Bits:   Rank order kept, one tree for all elements, not that of chain; fast, layout (canonical
//         and exact up to 3 ranks).
// When:   Short vectors. Hillis & Steele 1986, Data parallel algorithms.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_exscan_doubling(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, 1, 1);
  if (r + 1 < p) emit.send(r + 1, schedule::output(0, 1));
  if (r > 0) {
    // The received vector must not overwrite the own one while that is still being sent.
    emit.recv(r - 1, emit.scratch(0, 0, 1));
    emit.copy(schedule::output(0, 1), emit.scratch(0, 0, 1));
    doubling_scan(emit, r, 1, p);
  }
}

}  // namespace

Algorithm exscan_doubling() {
  return {"doubling",
          Collective::exscan,
          "vectors move on by one rank; then sums over 1, 2, 4, ... are sent as far on",
          emit_exscan_doubling,
          serves_everything,
          {"[p>1]+M", "[p>1]+M", "p+(p-1)M-2^M", "[p>1]+M", "M"}};
}

}  // namespace tutti
