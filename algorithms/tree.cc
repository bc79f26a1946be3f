// Tree (binomial reduce to rank 0, then binomial broadcast). In round i a rank whose bit i is the
// lowest set one sends its partial to the rank without that bit; the way back is the mirror image.
// Partners that do not exist are left out.
//
// Rounds: 2 ceil(log2 p), one port or more for the way up; with p-1 ports the reduce still takes
// ceil(log2 p) (partials depend on one another) and the broadcast too. Messages: 2(p-1). Rank 0 sends
// and reduces ceil(log2 p) n. Cost 2 ceil(log2 p)(alpha + n beta) + ceil(log2 p) n gamma.
//
// Order: kept (every partial covers a contiguous range of ranks, the lower one on the left). Bits: the
// same on all ranks (computed once, then copied); position independent.
//
// When: small vectors, many ranks, tapered networks: only p-1 messages a phase. Folklore; Thakur,
// Rabenseifner, Gropp 2005.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_tree(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, rank = shape.rank;
  Emitter out(sink, 1);
  uint32_t bit = 1;  // after the loop: the rank's lowest set bit, or the first power of two >= p
  for (; bit < p && (rank & bit) == 0; bit *= 2) {
    if (rank + bit < p) out.recv_reduce(rank + bit, output(0, 1), Side::right);
  }
  if (rank != 0) {
    out.send(rank - bit, output(0, 1));
    out.recv(rank - bit, output(0, 1));
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (rank + bit < p) out.send(rank + bit, output(0, 1));
  }
}

const Algorithm tree{"tree", Collective::allreduce,
                     "reduce up a binomial tree to rank 0, broadcast down the same tree", emit_tree,
                     serves_everything};

}  // namespace tutti
