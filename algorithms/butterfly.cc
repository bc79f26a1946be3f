// What:   In round i ranks at distance 2^i exchange whole partial results and combine them; where
//         p = 2^l + e, the even ranks below 2e hand theirs to the next rank and sit out.
// Cost:   l+2[e>0] rounds with any ports, l = floor(log2 p), q = 2^l, e = p-q; q*l+2e messages; a
//         rank sends, reduces (l+[e>0])n bytes. Time l(a + nb + nc), or (l+2)(a + nb) + (l+1)nc.
// Bits:   Rank order kept; both partners compute the same expression, so one tree for all ranks and
//         elements, which is the canonical one; fast, layout, canonical.
// When:   Short vectors; fewest rounds at powers of two. Folklore (recursive doubling); Thakur et
//         al. 2005, Optimization of collectives in MPICH.
#include "algorithms/list.h"
#include "algorithms/patterns.h"
#include "lib/schedule/emit.h"

namespace tutti {

namespace {

void emit_butterfly(const schedule::Shape& shape, schedule::Sink& sink) {
  using schedule::Side;
  const uint32_t r = shape.rank;
  const schedule::Range vector = schedule::output(0, 1);
  const Fold fold(shape.nranks);
  if (fold.sits_out(r)) {
    schedule::Emitter emit(sink, 1);
    emit.send(r + 1, vector);
    emit.recv(r + 1, vector);
    return;
  }

  // The partner's vector is received into scratch: this rank is still sending the one it is added
  // to.
  schedule::Emitter emit(sink, 1, 1);
  const schedule::Range incoming = emit.scratch(0, 0, 1);
  if (fold.folded(r)) emit.recv_reduce(r - 1, vector, Side::left);
  const uint32_t v = fold.to_survivor(r);
  for (uint32_t distance = 1; distance < fold.survivors; distance *= 2) {
    const uint32_t partner = fold.to_rank(v ^ distance);
    emit.send(partner, vector);
    emit.recv(partner, incoming);
    // Partials cover contiguous ranks and the lower stays on the left, at both partners.
    emit.reduce(vector, incoming, partner < r ? Side::left : Side::right);
  }
  if (fold.folded(r)) emit.send(r - 1, vector);
}

}  // namespace

Algorithm butterfly() {
  return {"butterfly",
          Collective::allreduce,
          "partners at distance 1, 2, 4, ... exchange whole partial results",
          emit_butterfly,
          serves_everything,
          {"l+2[e>0]", "l+2[e>0]", "q*l+2e", "l+[e>0]", "l+[e>0]"}};
}

}  // namespace tutti
