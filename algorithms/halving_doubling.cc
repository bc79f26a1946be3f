// Halving-doubling (Rabenseifner; recursive halving reduce-scatter, recursive doubling allgather). In
// round i partners at distance 2^i exchange halves of the range that they still share and each reduces
// one; the allgather retraces the rounds. Ranks beyond the largest power of two q are folded as whole
// vectors first (fold form (i)).
//
// Rounds: 2l with l = log2 q, or 2l+2 when p is not a power of two. Messages: 2 q l + 2(p-q). Busiest
// rank sends 2(q-1)/q n, plus n when folded; reduces (q-1)/q n, plus n when folded; in total 2(p-1) n
// are sent. Cost 2l alpha + 2(p-1)/p n beta + (p-1)/p n gamma at p = q.
//
// Order: kept, because the distance doubles (adjacent partials join) and the lower one is on the left.
// Bits: the same on all ranks; position independent; equal to those of butterfly.
//
// When: medium and large vectors at powers of two; otherwise where order must be kept. Rabenseifner,
// ICCS 2004.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_halving_doubling(const schedule::Shape& shape, schedule::Sink& sink) {
  const Fold fold(shape.rank, shape.nranks);
  const uint32_t q = fold.core_size();
  Emitter out(sink, q);
  if (!fold.in_core()) {
    out.send(fold.neighbour(), output(0, q));
    out.recv(fold.neighbour(), output(0, q));
    return;
  }
  if (fold.paired()) out.recv_reduce(fold.neighbour(), output(0, q), Side::left);

  const uint32_t core = fold.core_rank();
  uint32_t begin = 0, size = q;  // the chunks that this rank is still responsible for
  for (uint32_t bit = 1; bit < q; bit *= 2) {
    const uint32_t partner = fold.rank_of(core ^ bit);
    size /= 2;
    const uint32_t mine = (core & bit) != 0 ? begin + size : begin;
    const uint32_t theirs = (core & bit) != 0 ? begin : begin + size;
    out.send(partner, output(theirs, theirs + size));
    out.recv_reduce(partner, output(mine, mine + size), side_of(partner, shape.rank));
    begin = mine;
  }
  for (uint32_t bit = q / 2; bit > 0; bit /= 2) {
    const uint32_t partner = fold.rank_of(core ^ bit);
    const uint32_t theirs = (core & bit) != 0 ? begin - size : begin + size;
    out.send(partner, output(begin, begin + size));
    out.recv(partner, output(theirs, theirs + size));
    if (theirs < begin) begin = theirs;
    size *= 2;
  }
  if (fold.paired()) out.send(fold.neighbour(), output(0, q));
}

const Algorithm halving_doubling{
    "halving-doubling", Collective::allreduce,
    "exchange and reduce ever smaller halves, then collect them the same way back",
    emit_halving_doubling, serves_everything};

}  // namespace tutti
