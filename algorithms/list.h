// The list of algorithms. Adding one is a file that defines its function and a line here; the
// registry, help, tests and the README's table follow.
#pragma once

#include "lib/schedule/algorithm.h"

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
  entry(circulant) \
  entry(two_level) \
  entry(broadcast_binomial) \
  entry(broadcast_flat) \
  entry(broadcast_scatter_allgather) \
  entry(reduce_flat) \
  entry(reduce_binomial) \
  entry(reduce_two_shot) \
  entry(allgather_direct) \
  entry(allgather_bruck) \
  entry(allgather_ring) \
  entry(gather_flat) \
  entry(gather_binomial) \
  entry(scatter_flat) \
  entry(scatter_binomial) \
  entry(reduce_scatter_direct) \
  entry(reduce_scatter_ring) \
  entry(reduce_scatter_circulant) \
  entry(alltoall_direct) \
  entry(alltoall_bruck) \
  entry(scan_direct) \
  entry(scan_chain) \
  entry(scan_doubling) \
  entry(exscan_direct) \
  entry(exscan_chain) \
  entry(exscan_doubling)
// clang-format on

namespace tutti {

#define TUTTI_DECLARE(function) Algorithm function();
TUTTI_ALGORITHMS(TUTTI_DECLARE)
#undef TUTTI_DECLARE

}  // namespace tutti
