#include <array>

#include "algorithms/list.h"

namespace tutti {

std::span<const Algorithm> algorithms() {
  static const std::array table = {
      master_worker, all_to_all, two_shot,         round_robin, tree,
      butterfly,     halving_doubling, ring, binomial_broadcast,
  };
  return table;
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective && name == algorithm.name) return &algorithm;
  }
  return nullptr;
}

}  // namespace tutti
