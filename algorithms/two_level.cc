// What:   Ranks in consecutive groups of g (shape.radix) exchange vectors all-to-all and fold them;
//         then ranks at the same place of their groups do so with the groups' results.
// Cost:   g+p/g-2 rounds if g divides p, 2 with p-1 ports; a rank sends and reduces (g+p/g-2)n
//         bytes, (p/g-1)n out of its group. Odd p in pairs: p rounds, sends (p-1)n, reduces hn.
// Bits:   Rank order kept; all fold from the lowest operand up, so one tree for all ranks and
//         elements, another for each g; fast, layout; in pairs canonical if p is even or 2^k - 1.
// When:   Short vectors where the way out of a cache or host costs more than within; least at g =
//         sqrt(p). Levels as in Katevenis et al. 2022, Hierarchical single-copy MPI collectives.
#include <algorithm>

#include "algorithms/list.h"
#include "algorithms/parts.h"

namespace tutti {

namespace {

void emit_two_level(const schedule::Shape& shape, schedule::Sink& sink) {
  const TwoLevels levels(shape.nranks, shape.radix);
  const uint32_t group = levels.group_of(shape.rank), place = levels.place_of(shape.rank);
  const uint32_t members = levels.size(group), groups = levels.groups;
  schedule::Emitter emit(sink, 1, std::max(levels.group_size, groups) - 1);

  exchange_and_fold(emit, levels.rank_at(group, 0), place, members, shape.bracketing);
  for (uint32_t s = 1; s < groups; ++s) {
    const uint32_t to = up(group, s, groups), from = down(group, s, groups);
    // In a shorter last group, each rank serves several places of the other groups.
    for (uint32_t there = place; there < levels.size(to); there += members) {
      emit.send(levels.rank_at(to, there), schedule::output(0, 1));
    }
    emit.recv(levels.partner(from, place), emit.scratch(peer_position(group, from), 0, 1));
  }
  fold_in_rank_order(emit, group, groups, 0, 1, shape.bracketing);
}

}  // namespace

Algorithm two_level() {
  return {"two-level",
          Collective::allreduce,
          "all-to-all within groups of ranks that share a cache, then between the groups",
          emit_two_level,
          serves_everything,
          // Of pairs (g = 2): h = ceil(p/2); 2h-p is 1 for odd p, when a rank is left over that
          // sends its own vector, the result of its group, to both ranks of each pair.
          {"h(p+1-2h)+p(2h-p)[p>1]", "[p>1]+[p>2]", "hp(p+1-2h)+(p-h)(2(p-h)+3)(2h-p)",
           "h(p+1-2h)+2(p-h)(2h-p)", "h[p>1]"},
          Path::two_level};
}

}  // namespace tutti
