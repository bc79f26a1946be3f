#include "tools/launcher/binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc/linux.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

namespace tutti {
namespace {

constexpr std::chrono::milliseconds watch_time{30};  // three steps of IdleTimes
constexpr double busy_share = 0.5;  // of its time in which a core does something else

bool contains(const std::vector<size_t>& all, size_t one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

CpuSet copy_of(hwloc_const_bitmap_t set) { return CpuSet(hwloc_bitmap_dup(set)); }

}  // namespace

Status Binding::plan(Bind bind, int nranks, Binding* out) {
  *out = {};
  if (bind == Bind::none) return {};
  const IdleTimes before = IdleTimes::now();
  TUTTI_TRY(out->load(bind == Bind::numa ? HWLOC_OBJ_NUMANODE : HWLOC_OBJ_CORE));
  out->cores_ = bind == Bind::core;
  if (out->cores_)
    out->bind_to_cores(nranks, before);
  else
    out->share_out(nranks);
  return {};
}

// Finds the objects of the type that have processors for this process.
Status Binding::load(hwloc_obj_type_t type) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0)
    return {TUTTI_SYSTEM, "hwloc cannot read the topology of this machine"};
  topology_.reset(topology);
  if (hwloc_topology_load(topology) != 0)
    return {TUTTI_SYSTEM, "hwloc cannot read the topology of this machine"};
  allowed_.reset(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, allowed_.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(allowed_.get(), hwloc_topology_get_allowed_cpuset(topology));
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, type); ++i) {
    Place place;
    place.whole = copy_of(hwloc_get_obj_by_type(topology, type, unsigned(i))->cpuset);
    place.set.reset(hwloc_bitmap_alloc());
    hwloc_bitmap_and(place.set.get(), place.whole.get(), allowed_.get());
    if (hwloc_bitmap_iszero(place.set.get())) continue;
    place.name = unsigned(hwloc_bitmap_first(place.whole.get()));
    places_.push_back(std::move(place));
  }
  if (places_.empty()) return {TUTTI_SYSTEM, "hwloc finds neither cores nor NUMA nodes here"};
  return {};
}

void Binding::bind_to_cores(int nranks, const IdleTimes& before) {
  const size_t n = std::min(size_t(nranks), places_.size());
  if (places_.size() == 1) {  // nothing to choose from, but others should know
    take_cores({0}, 1);
    return share_out(nranks);
  }
  std::vector<size_t> cores = take_cores(idle_cores(before), n);
  if (cores.empty()) {
    reason_ = fmt::format("{} rank{} free core{}, but of {} too many are busy or another job's",
                          nranks, nranks == 1 ? " needs a" : fmt::format("s need {}", n),
                          nranks == 1 ? "" : "s", places_.size());
    return;
  }
  if (size_t(nranks) > n) return share_out(nranks);
  place_of_ = std::move(cores);
}

// Those that were idle most of the time since `before`, which is made long enough.
std::vector<size_t> Binding::idle_cores(const IdleTimes& before) const {
  std::vector<size_t> all(places_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  if (nothing_else_runs()) return all;
  std::this_thread::sleep_until(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(before.ns())) + watch_time);
  const IdleTimes now = IdleTimes::now();
  std::erase_if(all, [&](size_t core) { return !was_idle(core, before, now); });
  return all;
}

bool Binding::was_idle(size_t core, const IdleTimes& before, const IdleTimes& now) const {
  // One busy hardware thread slows the others down.
  const hwloc_const_bitmap_t whole = places_[core].whole.get();
  for (int cpu = hwloc_bitmap_first(whole); cpu >= 0; cpu = hwloc_bitmap_next(whole, cpu))
    if (1 - now.share_since(before, unsigned(cpu)) > busy_share) return false;
  return true;
}

std::vector<size_t> Binding::close_cores(const std::vector<size_t>& cores, size_t n) const {
  if (cores.size() < n) return {};
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_NUMANODE, HWLOC_OBJ_PACKAGE}) {
    for (int i = 0; i < hwloc_get_nbobjs_by_type(topology_.get(), type); ++i) {
      const hwloc_obj_t group = hwloc_get_obj_by_type(topology_.get(), type, unsigned(i));
      std::vector<size_t> inside;
      for (const size_t core : cores)
        if (hwloc_bitmap_isincluded(places_[core].whole.get(), group->cpuset))
          inside.push_back(core);
      if (inside.size() >= n) return {inside.begin(), inside.begin() + std::ptrdiff_t(n)};
    }
  }
  return {cores.begin(), cores.begin() + std::ptrdiff_t(n)};
}

std::vector<size_t> Binding::take_cores(std::vector<size_t> cores, size_t n) {
  for (;;) {
    std::vector<size_t> chosen = close_cores(cores, n);
    const auto held = std::find_if(chosen.begin(), chosen.end(), [&](size_t core) {
      return !CoreClaim::take(places_[core].name, &places_[core].claim);
    });
    if (held == chosen.end()) return chosen;
    // Of two jobs that start at once and want the same cores, the one that fails here has not taken
    // what the other still needs: both begin with the first.
    for (const size_t core : chosen) places_[core].claim = {};
    std::erase(cores, *held);
  }
}

// Consecutive ranks get the same place.
void Binding::share_out(int nranks) {
  for (int rank = 0; rank < nranks; ++rank)
    place_of_.push_back(size_t(rank) * places_.size() / size_t(nranks));
}

void Binding::apply(int rank) {
  if (!place_of_.empty())
    hwloc_set_cpubind(topology_.get(), places_[core_of(rank)].set.get(), HWLOC_CPUBIND_PROCESS);
  for (Place& place : places_) place.claim = {};
}

void Binding::apply_to_thread(int rank) const {
  if (!place_of_.empty())
    hwloc_set_cpubind(topology_.get(), places_[core_of(rank)].set.get(), HWLOC_CPUBIND_THREAD);
}

std::string Binding::text() const {
  if (!reason_.empty()) return "ranks are not bound: " + reason_;
  if (place_of_.empty()) return "";
  std::vector<unsigned> names;
  for (const size_t place : place_of_) names.push_back(places_[place].name);
  return fmt::format("ranks have the {} of CPUs {}", cores_ ? "cores" : "nodes",
                     fmt::join(names, ", "));
}

double Binding::used_ns(size_t core, const IdleTimes& before, const IdleTimes& now) const {
  const hwloc_const_bitmap_t set = places_[core].set.get();
  double used = 0;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
    used += (1 - now.share_since(before, unsigned(cpu))) * double(now.ns() - before.ns());
  return used;
}

bool Binding::take_other_core(int rank, const IdleTimes& before, const IdleTimes& now) {
  const size_t old = core_of(rank);
  for (size_t core = 0; core < places_.size(); ++core) {
    if (contains(place_of_, core) || !was_idle(core, before, now) ||
        !CoreClaim::take(places_[core].name, &places_[core].claim))
      continue;
    place_of_[size_t(rank)] = core;
    if (!contains(place_of_, old)) places_[old].claim = {};
    return true;
  }
  return false;
}

void Binding::give_up(std::string reason) {
  reason_ = std::move(reason);
  place_of_.clear();
  for (Place& place : places_) place.claim = {};
}

CpuSet Binding::set_of(int rank) const {
  return copy_of(place_of_.empty() ? allowed_.get() : places_[core_of(rank)].set.get());
}

void Binding::move_thread(pid_t thread, const CpuSet& from, const CpuSet& to) const {
  const CpuSet now(hwloc_bitmap_alloc());
  if (hwloc_linux_get_tid_cpubind(topology_.get(), thread, now.get()) == 0 &&
      hwloc_bitmap_isequal(now.get(), from.get()))
    hwloc_linux_set_tid_cpubind(topology_.get(), thread, to.get());
}

}  // namespace tutti
