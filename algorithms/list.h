// The list of algorithms. Adding one is a file that defines its function and a line here; the
// registry, help, tests and the README's table follow.
#pragma once

#include "algorithms/algorithm.h"

// clang-format off
#define TUTTI_ALGORITHMS(entry) \
  entry(master_worker) \
  entry(all_to_all) \
  entry(two_shot) \
  entry(round_robin) \
  entry(tree) \
  entry(butterfly) \
  entry(halving_doubling) \
  entry(ring) \
  entry(two_level) \
  entry(binomial_broadcast) \
  entry(flat_broadcast) \
  entry(flat_reduce) \
  entry(binomial_reduce) \
  entry(two_shot_reduce)
// clang-format on

namespace tutti {

#define TUTTI_DECLARE(function) Algorithm function();
TUTTI_ALGORITHMS(TUTTI_DECLARE)
#undef TUTTI_DECLARE

}  // namespace tutti
