// Small machines, in every interleaving of their ranks' accesses to shared memory.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "tests/simulation/cases.h"

namespace tutti::simulation {
namespace {

struct Explored {
  uint64_t cases = 0, states = 0, runs = 0;
  std::string wrong;
};

void explore(Machine& machine, const std::vector<CallSpec>& calls, Explored* all) {
  EverySchedule schedule;
  while (all->wrong.empty() && schedule.next()) {
    const std::string wrong = machine.run(calls, schedule);
    if (!wrong.empty()) all->wrong = describe(calls) + ": " + wrong;
  }
  ++all->cases;
  all->states += schedule.states();
  all->runs += schedule.runs();
}

void report(const char* what, const Explored& all) {
  std::printf("%s: %llu sequences, %llu states, %llu runs\n", what, (unsigned long long)all.cases,
              (unsigned long long)all.states, (unsigned long long)all.runs);
}

// The first call of each way; with `all_collectives`, the first of each of its collectives.
std::vector<CallSpec> small_calls(uint32_t nranks, bool all_collectives) {
  std::vector<CallSpec> all;
  for (const Way& way : all_ways(nranks)) {
    // More than two slices multiply the interleavings and add no other behaviour.
    if (std::string_view(way.name) == "one-hop, long parts") continue;
    if (std::string_view(way.name) == "copied") continue;  // where ranks may copy: below
    for (size_t i = 0; i < way.calls.size(); ++i) {
      const bool first =
          i == 0 || (all_collectives && way.calls[i].collective != way.calls[i - 1].collective);
      if (!first) continue;
      all.push_back(way.calls[i]);
      all.back().in_place = way.calls[i].collective == Collective::broadcast;
    }
  }
  return all;
}

// Those whose vectors are staged in one piece; `sliced`: and those of one slice.
std::vector<CallSpec> staged_calls(uint32_t nranks, bool sliced) {
  std::vector<CallSpec> calls = small_calls(nranks, false);
  std::erase_if(calls, [&](const CallSpec& call) {
    const bool whole = call.path == Path::one_shot || call.path == Path::one_shot_or_direct ||
                       call.path == Path::two_level;
    const bool one_slice = call.path == Path::two_shot && call.count == 1;
    return call.reached != nobody || !(whole || (sliced && one_slice));
  });
  return calls;
}

// Whether the call has several slices, so that ranks may be at different ones.
bool is_long(const CallSpec& call) { return call.path == Path::two_shot && call.count > 16; }
// Whether the pair has a hundred thousand states by itself, or a million.
bool is_large(const CallSpec& first, const CallSpec& second) {
  const auto moves_much = [](const CallSpec& call) {
    return is_long(call) || call.path == Path::sliced_one_shot ||
           (call.path == Path::schedule && call.count > 1);
  };
  return (is_long(first) && moves_much(second)) || (moves_much(first) && is_long(second));
}

void explore_pairs(const char* what, uint32_t nranks, const std::vector<CallSpec>& calls,
                   bool large) {
  Machine machine(tiny_machine(nranks));
  Explored all;
  for (const CallSpec& first : calls) {
    for (const CallSpec& second : calls) {
      if (large || !is_large(first, second)) explore(machine, {first, second}, &all);
    }
  }
  report(what, all);
  EXPECT_EQ(all.wrong, "");
}

TEST(EveryOrder, OfTwoRanksAndAnyTwoWays) {
  explore_pairs("two ranks, any two ways", 2, small_calls(2, false), false);
}

TEST(EveryOrder, OfThreeRanksAndOneHop) {
  explore_pairs("three ranks, one-shot and two-level", 3, staged_calls(3, false), false);
}

TEST(EveryOrder, OfTwoRanksThatCopyFromEachOther) {
  MachineSettings settings = tiny_machine(2);
  settings.single_copy = shared::Copying::where_asked;
  settings.processes = true;
  Machine machine(settings);
  const CallSpec copied{.path = Path::two_shot, .count = 32, .copies = true};
  const CallSpec short_one{.path = Path::one_shot, .count = 1};
  const CallSpec sliced{.path = Path::sliced_one_shot, .count = 9};
  Explored all;
  explore(machine, {copied, short_one}, &all);
  explore(machine, {short_one, copied}, &all);
  explore(machine, {sliced, copied}, &all);
  report("two ranks, copied", all);
  EXPECT_EQ(all.wrong, "");
}

TEST(EveryOrder, LongOfTwoRanksAndAnyTwoCalls) {
  explore_pairs("two ranks, any two calls", 2, small_calls(2, true), true);
}

TEST(EveryOrder, LongOfThreeRanksAndTwoShot) {
  explore_pairs("three ranks, one-shot, two-level and two-shot", 3, staged_calls(3, true), false);
}

TEST(EveryOrder, LongOfTwoRanksAndAnyThreeShortWays) {
  Machine machine(tiny_machine(2));
  Explored all;
  std::vector<CallSpec> calls = small_calls(2, false);
  std::erase_if(calls, is_long);
  for (const CallSpec& first : calls) {
    for (const CallSpec& second : calls) {
      for (const CallSpec& third : calls) explore(machine, {first, second, third}, &all);
    }
  }
  report("two ranks, any three short ways", all);
  EXPECT_EQ(all.wrong, "");
}

}  // namespace
}  // namespace tutti::simulation
