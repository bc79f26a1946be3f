// The ways that a call can go, each at the limits of its parameters, on machines whose arenas are a
// few cache lines long, so that they fill up and wrap around often.
#pragma once

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "tests/simulation/machine.h"

namespace tutti::simulation {

inline MachineSettings tiny_machine(uint32_t nranks) {
  MachineSettings settings;
  settings.nranks = nranks;
  Tuning& tuning = settings.tuning;
  tuning.resident_bytes = 128;
  tuning.one_shot_bytes = 320;
  tuning.staged_bytes = 64;
  tuning.two_shot_slice_bytes = 64;
  tuning.two_shot_window = 16;  // equal to the number of slots
  tuning.rotated_bytes = 1024;
  tuning.one_hop_slice_bytes = 64 * std::max(4u, nranks - 1);  // one cache line for each part
  tuning.ring_bytes = std::bit_ceil(4 * tuning.one_hop_slice_bytes);  // twice a narrow one
  tuning.ring_slices = 4;
  tuning.one_hop_lines = 2;
  tuning.least_one_hop_slice_bytes = 64;
  tuning.single_copy_bytes = 256;
  tuning.copied_land_bytes = 128;
  tuning.copied_gather_bytes = 128;
  tuning.core_bytes = 1;  // so that narrow is two slices
  // Room for four slots of two-shot for every peer, and for results.
  settings.cell_bytes = std::max<uint64_t>(1280, 4 * 64 * (nranks - 1)) + 1024;
  return settings;
}

constexpr uint32_t nobody = 0, everybody = 0xff, some = 0x5;

// One way, and the lengths to call it with.
struct Way {
  const char* name;
  std::vector<CallSpec> calls;
};

inline std::vector<Way> all_ways(uint32_t nranks) {
  using C = Collective;
  std::vector<Way> all;
  const auto add = [&](const char* name, Path path, std::initializer_list<C> collectives,
                       std::initializer_list<uint64_t> counts, uint32_t reached = nobody,
                       const char* algorithm = nullptr) {
    Way way{name, {}};
    for (const C collective : collectives) {
      for (const uint64_t count : counts) {
        way.calls.push_back({path, collective, algorithm, count, 0, reached, false});
      }
    }
    all.push_back(std::move(way));
  };
  const auto one_hop = {C::broadcast, C::reduce,         C::allgather, C::gather, C::scatter,
                        C::alltoall,  C::reduce_scatter, C::scan,      C::exscan};
  const uint64_t n = nranks;
  add("one-shot in the line", Path::one_shot, {C::allreduce}, {1, 6, 7});
  add("one-shot resident", Path::one_shot, {C::allreduce}, {8});
  add("one-shot resident, or direct", Path::one_shot_or_direct, {C::allreduce}, {9, 16});
  add("one-shot in the arena", Path::one_shot_or_direct, {C::allreduce}, {17, 24, 32});
  add("two-level in the line", Path::two_level, {C::allreduce}, {1, 7});
  add("two-level resident", Path::two_level, {C::allreduce}, {8});
  add("two-shot, one slice", Path::two_shot, {C::allreduce}, {1, 8, 8 * n});
  add("two-shot", Path::two_shot, {C::allreduce}, {8 * n + 1, 40 * n + 3, 140 * n});
  add("direct", Path::one_shot_or_direct, {C::allreduce}, {9, 17, 32}, everybody);
  add("direct, long", Path::two_shot, {C::allreduce}, {9, 70}, everybody);
  add("direct, one shot", Path::two_shot, {C::allreduce}, {9, 70}, everybody);
  for (CallSpec& call : all.back().calls) call.one_shot = everybody;
  add("one-shot, some reached", Path::one_shot_or_direct, {C::allreduce}, {9, 20}, some);
  add("two-shot, some reached", Path::two_shot, {C::allreduce}, {8 * n + 1, 50}, some);
  add("sliced one-shot", Path::sliced_one_shot, {C::allreduce}, {9, 32, 33, 70});
  add("sliced one-shot, some reached", Path::sliced_one_shot, {C::allreduce}, {9, 50}, some);
  add("sliced one-shot, direct", Path::sliced_one_shot, {C::allreduce}, {9, 70}, everybody);
  add("copied", Path::two_shot, {C::allreduce}, {32, 8 * n + 33, 140 * n}, nobody);
  add("one-hop, tiny", Path::one_hop, one_hop, {1});
  add("one-hop in the line", Path::one_hop, one_hop, {3, 7});
  add("one-hop in lines", Path::one_hop, one_hop, {8, 14});
  add("one-hop", Path::one_hop, one_hop, {15, 16, 31});
  add("one-hop, long parts", Path::one_hop, one_hop, {32, 33, 70});
  add("one-hop, direct", Path::one_hop, one_hop, {15, 31, 33}, everybody);
  add("one-hop, some reached", Path::one_hop, one_hop, {16, 70}, some);
  add("schedule", Path::schedule, {C::allreduce}, {5, 40}, nobody, "butterfly");
  add("schedule, blocks", Path::schedule, {C::alltoall, C::allgather}, {1, 9}, nobody, "direct");
  add("nothing", Path::one_shot, {C::allreduce}, {0});
  return all;
}

// A call that goes this way; `drawn` decides its length, its root and where its result goes.
inline CallSpec call_of(const Way& way, uint32_t nranks, uint64_t drawn) {
  CallSpec spec = way.calls[drawn % way.calls.size()];
  if (is_rooted(spec.collective)) spec.root = uint32_t(drawn >> 16) % nranks;
  spec.in_place = spec.collective == Collective::broadcast ||
                  ((spec.collective == Collective::allreduce || is_scan(spec.collective)) &&
                   (drawn >> 32) % 4 == 0);
  spec.narrow = uint32_t(drawn >> 36 & drawn >> 44) & 0xff;
  spec.copies = (drawn >> 52) % 2 == 0 || std::string_view(way.name) == "copied";
  spec.whole = (drawn >> 54) % 2 == 0 && spec.path == Path::one_hop;
  spec.past = uint32_t(drawn >> 56 & drawn >> 48) & 0xff;
  spec.staged = (drawn >> 60) % 4 == 0;
  spec.own_first = (drawn >> 61) % 2 == 0;
  spec.one_shot = (drawn >> 62) % 2 == 0 ? everybody : uint32_t(drawn >> 40) & everybody;
  spec.verdict = (drawn >> 53) % 2 == 0;
  return spec;
}

inline std::string describe(const std::vector<CallSpec>& calls) {
  std::string text;
  for (const CallSpec& call : calls) text += (text.empty() ? "" : ", then ") + call.describe();
  return text;
}

}  // namespace tutti::simulation
