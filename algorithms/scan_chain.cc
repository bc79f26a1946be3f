// Chain scan: partial results go from rank to rank, each adding its own; a long vector is pipelined
// in slices by the executor.
//
// Cost: p-1 rounds, however many ports; p-1 messages; every rank sends and reduces n. Time (p-1)(a
// + n(b + c)), pipelined about n(b + c) for long vectors. Bits: rank order kept, bracketed from the
// left. Use: long vectors. Folklore.
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
