// What:   In round i ranks at distance 2^i exchange halves of what they still hold and combine
//         them, then gather the chunks the same way back; where p = 2^l + e, e ranks sit out.
// Cost:   2l+2[e>0] rounds, l = floor(log2 p), q = 2^l, e = p-q; 2q*l+2e messages; a rank sends
//         (2(q-1)/q+[e>0])n, reduces ((q-1)/q+[e>0])n bytes. If e = 0 time 2la + (p-1)/p n(2b + c).
// Bits:   Rank order kept; one survivor finishes each chunk and the others copy; every element has
//         butterfly's tree, the canonical one; fast, layout, canonical.
// When:   Medium and long vectors, best at powers of two; all together send 2(p-1)n, the least.
//         Rabenseifner 2004, Optimization of collective reduction operations.
#include "algorithms/list.h"
#include "algorithms/patterns.h"
#include "lib/schedule/emit.h"

namespace tutti {

namespace {

schedule::Range chunks_of(const Span& span) { return schedule::output(span.begin, span.end); }

void emit_halving_doubling(const schedule::Shape& shape, schedule::Sink& sink) {
  using schedule::Side;
  const uint32_t r = shape.rank;
  const Fold fold(shape.nranks);
  const uint32_t q = fold.survivors, rounds = log2_floor(q);
  const schedule::Range vector = schedule::output(0, q);
  schedule::Emitter emit(sink, q);
  if (fold.sits_out(r)) {
    emit.send(r + 1, vector);
    emit.recv(r + 1, vector);
    return;
  }

  if (fold.folded(r)) emit.recv_reduce(r - 1, vector, Side::left);
  const uint32_t v = fold.to_survivor(r);
  for (uint32_t i = 0; i < rounds; ++i) {
    const uint32_t w = v ^ (uint32_t{1} << i), partner = fold.to_rank(w);
    emit.send(partner, chunks_of(halved(w, i + 1, q)));
    // Distances double, so that partials cover contiguous ranks; the lower stays on the left.
    emit.recv_reduce(partner, chunks_of(halved(v, i + 1, q)),
                     partner < r ? Side::left : Side::right);
  }
  for (uint32_t i = rounds; i-- > 0;) {
    const uint32_t w = v ^ (uint32_t{1} << i), partner = fold.to_rank(w);
    emit.send(partner, chunks_of(halved(v, i + 1, q)));
    emit.recv(partner, chunks_of(halved(w, i + 1, q)));
  }
  if (fold.folded(r)) emit.send(r - 1, vector);
}

}  // namespace

Algorithm halving_doubling() {
  return {"halving-doubling",
          Collective::allreduce,
          "partners at distance 1, 2, 4, ... exchange ever smaller halves, then gather them back",
          emit_halving_doubling,
          serves_everything,
          {"2l+2[e>0]", "2l+2[e>0]", "2q*l+2e", "2(q-1)/q+[e>0]", "(q-1)/q+[e>0]"}};
}

}  // namespace tutti
