// What:   Partial results go from rank to rank, each adding its own.
// Cost:   p-1 rounds, with any number of ports; p-1 messages; a rank sends and reduces n bytes.
//         Time (p-1)(a + n(b + c)), of long vectors, pipelined in slices, about n(b + c).
// Bits:   Rank order kept, bracketed from the left, one tree for all elements; fast, layout
//         (canonical up to 3 ranks).
// When:   Long vectors. Folklore.
#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_scan_chain(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, 1);
  if (r > 0) emit.recv_reduce(r - 1, schedule::output(0, 1), schedule::Side::left);
  if (r + 1 < p) emit.send(r + 1, schedule::output(0, 1));
}

}  // namespace

Algorithm scan_chain() {
  return {"chain",
          Collective::scan,
          "partial results go from rank to rank, each adding its own",
          emit_scan_chain,
          serves_everything,
          {"p-1", "p-1", "p-1", "[p>1]", "[p>1]"}};
}

}  // namespace tutti
