#include "tools/launcher/binding.h"

#include <utility>

namespace tutti {
namespace {

// For every object of the type, its processors that this process may use; empty sets are left out.
std::vector<CpuSet> usable(hwloc_topology_t topology, hwloc_obj_type_t type) {
  CpuSet allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology));
  std::vector<CpuSet> sets;
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, type); ++i) {
    CpuSet set(hwloc_bitmap_alloc());
    hwloc_bitmap_and(set.get(), hwloc_get_obj_by_type(topology, type, unsigned(i))->cpuset,
                     allowed.get());
    if (!hwloc_bitmap_iszero(set.get())) sets.push_back(std::move(set));
  }
  return sets;
}

}  // namespace

Status Binding::plan(Bind bind, int nranks, Binding* out) {
  *out = {};
  if (bind == Bind::none) return {};
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0)
    return {TUTTI_SYSTEM, "hwloc cannot read the topology of this machine"};
  out->topology_.reset(topology);
  if (hwloc_topology_load(topology) != 0)
    return {TUTTI_SYSTEM, "hwloc cannot read the topology of this machine"};

  std::vector<CpuSet> places =
      usable(topology, bind == Bind::numa ? HWLOC_OBJ_NUMANODE : HWLOC_OBJ_CORE);
  if (places.empty()) return {TUTTI_SYSTEM, "hwloc finds neither cores nor NUMA nodes here"};
  for (int rank = 0; rank < nranks; ++rank) {
    const bool shared = bind == Bind::numa || size_t(nranks) > places.size();
    const size_t place = shared ? size_t(rank) * places.size() / size_t(nranks) : size_t(rank);
    out->sets_.emplace_back(hwloc_bitmap_dup(places[place].get()));
  }
  return {};
}

void Binding::apply(int rank) const {
  if (!sets_.empty())
    hwloc_set_cpubind(topology_.get(), sets_[size_t(rank)].get(), HWLOC_CPUBIND_PROCESS);
}

}  // namespace tutti
