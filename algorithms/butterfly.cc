// Butterfly allreduce (recursive doubling, hypercube exchange): in round i every rank exchanges its
// whole partial result with rank xor 2^i and combines the two. When p is not a power of two, each
// even rank among the first 2e hands its vector to its right neighbour and gets the result at the
// end.
//
// Cost, with l = floor(log2 p), q = 2^l, e = p - q: l rounds, l+2 if e > 0, however many ports;
// ql + 2e messages; the busiest rank sends and reduces l vectors, l+1 if e > 0. Time l(a + nb +
// nc), or (l+2)(a + nb) + (l+1)nc. Bits: rank order kept, because folding joins neighbours,
// partials cover contiguous ranks and the lower stays on the left; for the same reason both
// partners of an exchange compute the same expression and all ranks end with the same bits. Every
// element the same bracketing, of depth l (+1). Use: short vectors; least latency at powers of two.
// Folklore; Thakur et al. 2005.
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

  // What the partner sends must wait in scratch: both sides still send the vector it is added to.
  schedule::Emitter emit(sink, 1, 1);
  const schedule::Range incoming = emit.scratch(0, 0, 1);
  if (fold.folded(r)) emit.recv_reduce(r - 1, vector, Side::left);
  const uint32_t v = fold.to_survivor(r);
  for (uint32_t distance = 1; distance < fold.survivors; distance *= 2) {
    const uint32_t partner = fold.to_rank(v ^ distance);
    emit.send(partner, vector);
    emit.recv(partner, incoming);
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
