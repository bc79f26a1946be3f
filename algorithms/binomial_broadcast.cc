// Binomial broadcast. Ranks are numbered from the root; in each round every rank that has the vector
// sends it to the one at half the distance, so the number of holders doubles.
//
// Rounds: ceil(log2 p). Messages: p-1. The root sends ceil(log2 p) n. Cost ceil(log2 p)(alpha + n beta).
//
// Order and bits: nothing is combined.
//
// When: small vectors; any p, any root. Folklore.
#include "algorithms/list.h"
#include "algorithms/patterns.h"

namespace tutti {

using namespace patterns;

void emit_binomial_broadcast(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks;
  const uint32_t place = before(shape.rank, shape.root, p);  // distance from the root
  Emitter out(sink, 1);
  uint32_t bit = 1;  // after the loop: the lowest set bit of the place, or the first power of two >= p
  while (bit < p && (place & bit) == 0) bit *= 2;
  if (place != 0) out.recv(after(shape.root, place - bit, p), output(0, 1));
  for (bit /= 2; bit > 0; bit /= 2) {
    if (place + bit < p) out.send(after(shape.root, place + bit, p), output(0, 1));
  }
}

const Algorithm binomial_broadcast{"binomial", Collective::broadcast,
                                   "every rank that has the vector passes it on, down a binomial tree",
                                   emit_binomial_broadcast, serves_everything};

}  // namespace tutti
