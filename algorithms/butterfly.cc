// Butterfly (recursive doubling, hypercube exchange). In round i each rank exchanges its whole partial
// with the rank that differs in bit i, and both combine. Ranks beyond the largest power of two q are
// folded first: adjacent pairs of the first 2(p-q) ranks join, one of each pair takes part.
//
// Rounds: l = log2 q, or l+2 when p is not a power of two; with more ports the same. Messages: q l +
// 2(p-q). Busiest rank sends l n, or (l+1) n when folded, and reduces as much. Cost l (alpha + n beta +
// n gamma), or (l+2)(alpha + n beta) + (l+1) n gamma. Scratch n.
//
// Order: kept (adjacent folding, lower partial on the left). Bits: the same on all ranks, because both
// partners evaluate the same tree with the lower rank on the left; position independent.
//
// When: small vectors; latency-optimal for powers of two. Folklore; Thakur, Rabenseifner, Gropp 2005.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_butterfly(const schedule::Shape& shape, schedule::Sink& sink) {
  const Fold fold(shape.rank, shape.nranks);
  Emitter out(sink, 1, 1);
  if (!fold.in_core()) {
    out.send(fold.neighbour(), output(0, 1));
    out.recv(fold.neighbour(), output(0, 1));
    return;
  }
  if (fold.paired()) out.recv_reduce(fold.neighbour(), output(0, 1), Side::left);
  for (uint32_t bit = 1; bit < fold.core_size(); bit *= 2) {
    const uint32_t partner = fold.rank_of(fold.core_rank() ^ bit);
    out.send(partner, output(0, 1));
    out.recv(partner, out.scratch(0, 0, 1));
    out.reduce(output(0, 1), out.scratch(0, 0, 1), side_of(partner, shape.rank));
  }
  if (fold.paired()) out.send(fold.neighbour(), output(0, 1));
}

const Algorithm butterfly{"butterfly", Collective::allreduce,
                          "partners at distance 1, 2, 4 ... exchange and combine whole vectors",
                          emit_butterfly, serves_everything};

}  // namespace tutti
