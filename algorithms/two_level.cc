// Two-level allreduce: ranks in consecutive groups of g (shape.radix; ranks that share a last-level
// cache). Within its group every rank sends its vector to every other and folds all of them; then
// ranks at the same place of their groups do the same with the groups' results. A shorter last
// group serves several places with each rank.
//
// Cost, for p a multiple of g: g-1 + p/g-1 rounds, 2 with p-1 ports; every rank sends and reduces
// g + p/g - 2 vectors, of which only p/g - 1 leave the group; least at g = sqrt(p). The formulas
// below are of pairs (g = 2), h = ceil(p/2) of them; 2h-p is 1 for odd p, when a rank is left over,
// which sends the result of its group, its own vector, to both ranks of each pair.
// Bits: rank order kept and the same bits everywhere, because each fold goes from the lowest
// operand up, on all who need its result; the same tree for every element, another one for each g.
// Use: small vectors where the way out of a cache (or a host) costs more than the way within.
// Hierarchical form of direct exchange; of shared memory: Katevenis et al., XHC (CLUSTER 2022).
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
          {"h(p+1-2h)+p(2h-p)[p>1]", "[p>1]+[p>2]", "hp(p+1-2h)+(p-h)(2(p-h)+3)(2h-p)",
           "h(p+1-2h)+2(p-h)(2h-p)", "h[p>1]"}};
}

}  // namespace tutti
