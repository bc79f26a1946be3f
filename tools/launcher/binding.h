// Which cores each local rank may use.
#pragma once

#include <hwloc.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace tutti {

enum class Bind { none, core, numa };

struct BitmapFree {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using CpuSet = std::unique_ptr<hwloc_bitmap_s, BitmapFree>;

class Binding {
 public:
  // Of `nranks` ranks over what this process may use: `core` one core each, in the order of the
  // machine, consecutive ranks on the same core where there are more ranks than cores (left to the
  // scheduler, four ranks on two cores spend much of their time three on one: 5.2 us instead of 2.8
  // at 64 B); `numa` consecutive ranks share a node.
  static Status plan(Bind bind, int nranks, Binding* out);

  // In the process of the rank, between fork and exec. Best effort: a rank that cannot be bound
  // runs unbound.
  void apply(int rank) const;

 private:
  struct TopologyFree {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  };
  std::unique_ptr<hwloc_topology, TopologyFree> topology_;
  std::vector<CpuSet> sets_;  // by rank; empty: not bound
};

}  // namespace tutti
