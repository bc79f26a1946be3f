// Which cores each local rank may use.
#pragma once

#include <hwloc.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tools/launcher/cores.h"

namespace tutti {

enum class Bind { none, core, numa };

struct BitmapFree {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using CpuSet = std::unique_ptr<hwloc_bitmap_s, BitmapFree>;

class Binding {
 public:
  // Of `nranks` ranks over what this process may use.
  //
  // `core`: a core each, of those that no other job of tutti holds and that are not busy, in the
  // order of the machine, under the smallest last-level cache, node or package that has enough of
  // them. They are this job's until the Binding goes. Where there are too few, ranks are not bound:
  // the scheduler shares out what is left better than a rank shares its core with a neighbour. More
  // ranks than the machine has cores share them evenly if all are free, consecutive ranks the same
  // core (left to the scheduler, four ranks on two cores spend much of their time three on one: 5.2
  // us instead of 2.8 at 64 B).
  //
  // `numa`: consecutive ranks share a node, whatever runs there.
  //
  // `core` watches the processors for 30 ms, unless nothing else runs or there is only one core.
  static Status plan(Bind bind, int nranks, Binding* out);

  // In the process of the rank, between fork and exec. Best effort: a rank that cannot be bound
  // runs unbound. The process forgets the claims, which are the launcher's.
  void apply(int rank);
  // The same for a rank that is the calling thread of the launcher.
  void apply_to_thread(int rank) const;

  // Which ranks have which cores or nodes, or why none has; "" if none was asked for.
  std::string text() const;

  // What follows moves ranks that run.

  // Whether ranks are bound to cores and might have others.
  bool can_move() const { return cores_ && !place_of_.empty() && places_.size() > 1; }
  size_t core_of(int rank) const { return place_of_[size_t(rank)]; }
  size_t cores() const { return places_.size(); }
  // For how long since `before` the core's processors were not idle, in nanoseconds.
  double used_ns(size_t core, const IdleTimes& before, const IdleTimes& now) const;
  // Gives a rank another core, which nobody holds and which was idle since `before`; false if there
  // is none.
  bool take_other_core(int rank, const IdleTimes& before, const IdleTimes& now);
  // Gives up all cores: ranks are not bound any more, for this reason.
  void give_up(std::string reason);
  // What the rank may use now, for move_thread().
  CpuSet set_of(int rank) const;
  // Lets a thread use `to` that could use `from`; one that has bound itself elsewhere stays there.
  void move_thread(pid_t thread, const CpuSet& from, const CpuSet& to) const;

 private:
  struct TopologyFree {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  };
  struct Place {
    unsigned name = 0;  // the number of its first processor
    CpuSet set;         // its processors that this process may use
    CpuSet whole;       // all its processors
    CoreClaim claim;
  };

  Status load(hwloc_obj_type_t type);
  std::vector<size_t> idle_cores(const IdleTimes& before) const;
  bool was_idle(size_t core, const IdleTimes& before, const IdleTimes& now) const;
  // Of these cores n that are close to each other, or none.
  std::vector<size_t> close_cores(const std::vector<size_t>& cores, size_t n) const;
  // The same of those that can be had; they are this job's then.
  std::vector<size_t> take_cores(std::vector<size_t> cores, size_t n);
  void bind_to_cores(int nranks, const IdleTimes& before);
  void share_out(int nranks);

  std::unique_ptr<hwloc_topology, TopologyFree> topology_;
  CpuSet allowed_;
  std::vector<Place> places_;     // cores, or nodes
  std::vector<size_t> place_of_;  // by rank; empty: not bound
  bool cores_ = false;            // which ranks have to themselves
  std::string reason_;            // why ranks are not bound
};

}  // namespace tutti
