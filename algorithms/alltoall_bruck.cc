// What:   A block that has to go t ranks on makes a hop of 2^i ranks for each bit i set in t, the
//         lowest first; in round i all blocks that move 2^i on go as one message.
// Cost:   L = ceil(log2 p) rounds, for some p one less with p-1 ports; p*L messages; every rank
//         sends s/p n bytes, s the one bits in 1 to p-1: about (log2 p)/2 n. Time La + s/p nb.
// Bits:   Blocks are copied, never combined: all levels.
// When:   Short blocks whose lengths all ranks know, many ranks. Bruck et al. 1997, Efficient
//         algorithms for all-to-all communications.
#include <vector>

#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_alltoall_bruck(const schedule::Shape& shape, schedule::Sink& sink) {
  const uint32_t p = shape.nranks, r = shape.rank;
  schedule::Emitter emit(sink, p * p);
  // The blocks that `rank` sends to the rank `step` after it.
  const auto moving = [&](uint32_t rank, uint32_t step) {
    std::vector<schedule::Range> parts;
    for (uint32_t t = step; t < p; ++t) {
      if ((t & step) == 0) continue;
      const uint32_t origin = down(rank, t & (step - 1), p);
      const uint32_t block = origin * p + up(origin, t, p);
      parts.push_back(schedule::output(block, block + 1));
    }
    return parts;
  };
  for (uint32_t step = 1; step < p; step *= 2) {
    const uint32_t to = up(r, step, p), from = down(r, step, p);
    emit.send(to, moving(r, step));
    emit.recv(from, moving(from, step));
  }
}

}  // namespace

Algorithm alltoall_bruck() {
  return {"bruck",
          Collective::alltoall,
          "blocks travel the binary digits of their distance, all those of a digit together",
          emit_alltoall_bruck,
          lengths_known_to_all,
          {"L", "L-[e>0][3q+1>2p]", "p*L", "s/p", "0"}};
}

}  // namespace tutti
