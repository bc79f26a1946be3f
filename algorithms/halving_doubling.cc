// Halving-doubling allreduce (Rabenseifner): a reduce-scatter in which round i exchanges half of
// the range still held with rank xor 2^i, then an allgather that goes the same way back. When p is
// not a power of two, each even rank among the first 2e hands its whole vector to its right
// neighbour and gets the result at the end.
//
// Cost, with l = floor(log2 p), q = 2^l, e = p - q: 2l rounds, 2l+2 if e > 0, however many ports;
// 2ql + 2e messages; the busiest rank sends 2(q-1)/q n, and n more if e > 0, and reduces (q-1)/q n,
// and n more if e > 0; all ranks together send 2(p-1)n. Time for p = q: 2la + 2(p-1)/p nb +
// (p-1)/p nc.
// Bits: rank order kept: distances double, so that partials cover contiguous ranks, folding joins
// neighbours and the lower stays on the left. Each chunk is finished by one survivor and copied.
// Every element has the same bracketing, and it is that of butterfly. Use: medium and long vectors,
// best at powers of two. Rabenseifner 2004; Thakur et al. 2005.
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
