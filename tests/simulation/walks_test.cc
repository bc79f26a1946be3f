// Sequences of calls in which every way follows every other, under random interleavings, on
// processors that reorder, and with ranks that die or abort anywhere.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/simulation/cases.h"

namespace tutti::simulation {
namespace {

struct Walks {
  uint64_t walks = 0, wrong = 0, results = 0, accesses = 0;
  std::string first;  // what was wrong in the first bad walk

  Walks& operator+=(const Walks& other) {
    walks += other.walks;
    wrong += other.wrong;
    results += other.results;
    accesses += other.accesses;
    if (first.empty()) first = other.first;
    return *this;
  }
};

enum class Fault { none, death, abort, limit, stray };

// Ways that calls go: all; one-hop, which a rank may leave without a message from all; those in
// which ranks read the vectors where they lie; those in which the kernel copies.
enum class Among { all, one_hop, direct, copied };

bool is_among(const Way& way, Among among) {
  if (among == Among::one_hop) return way.calls[0].path == Path::one_hop;
  if (among == Among::direct) return way.calls[0].reached == everybody;
  return among == Among::all || std::string_view(way.name) == "copied";
}

struct Setting {
  uint32_t nranks;
  bool weak;  // the memory model of C++; else sequential consistency, whose walks are shorter
  shared::Copying single_copy;
  Fault fault = Fault::none;
  Among among = Among::all;
};

// Runs `walks` walks: every ordered pair of ways in turn, each with a third; with n ways, n times
// as many walks cover every triple.
Walks walk(const Setting& setting, uint64_t walks) {
  MachineSettings settings = tiny_machine(setting.nranks);
  settings.weak = setting.weak;
  settings.single_copy = setting.single_copy;
  settings.processes =
      setting.fault == Fault::death || setting.single_copy != shared::Copying::never;
  Machine machine(settings);
  std::vector<Way> ways = all_ways(setting.nranks);
  std::erase_if(ways, [&](const Way& way) { return !is_among(way, setting.among); });
  const uint64_t n = ways.size();
  Walks all;
  // Every machine begins with other pairs.
  const uint64_t begin =
      walks * (setting.nranks * 6 + setting.weak * 3 + uint64_t(setting.single_copy));
  for (uint64_t i = begin; i < begin + walks; ++i) {
    RandomSchedule schedule(i * 1024 + setting.nranks * 32 + setting.weak * 16 +
                            uint64_t(setting.fault) + 5 * uint64_t(setting.single_copy));
    const std::vector<CallSpec> calls = {
        call_of(ways[i % n], setting.nranks, schedule.draw()),
        call_of(ways[i / n % n], setting.nranks, schedule.draw()),
        call_of(ways[(i / n / n + i + i / n * 5) % n], setting.nranks, schedule.draw())};
    if (setting.fault == Fault::stray) {
      machine.set_stray(int(schedule.draw() % setting.nranks), 1 + schedule.draw() % 2,
                        Machine::Stray(schedule.draw() % 4));
    } else if (setting.fault == Fault::limit) {
      const uint64_t most_moves = uint64_t{4} << (schedule.draw() % 7);
      machine.set_limit(int(schedule.draw() % setting.nranks), schedule.draw() % most_moves);
    } else if (setting.fault != Fault::none) {
      const int rank = int(schedule.draw() % setting.nranks);
      const uint64_t at = schedule.draw() % (uint64_t{1} << (2 + schedule.draw() % 8));
      machine.set_fault(setting.fault == Fault::death ? rank : -1,
                        setting.fault == Fault::abort ? rank : -1, at);
    }
    const std::string wrong = machine.run(calls, schedule);
    ++all.walks;
    if (wrong.empty() || all.wrong++ != 0) continue;
    all.first = std::to_string(setting.nranks) + " ranks, walk " + std::to_string(i) + ", " +
                describe(calls) + ": " + wrong;
  }
  all.results = machine.right_results();
  all.accesses = machine.accesses();
  return all;
}

// `walks` of them, spread over rank counts and kinds of machines.
Walks walk_everywhere(uint64_t walks, Fault fault, Among among = Among::all) {
  Walks all;
  for (uint32_t nranks = 2; nranks <= 8; ++nranks) {
    for (const bool weak : {false, true}) {
      for (const auto single_copy :
           {shared::Copying::never, shared::Copying::where_asked, shared::Copying::always}) {
        all += walk({nranks, weak, single_copy, fault, among}, walks / 42 + 1);
      }
    }
  }
  std::printf("%llu walks, %llu right results, %llu accesses to flags\n",
              (unsigned long long)all.walks, (unsigned long long)all.results,
              (unsigned long long)all.accesses);
  return all;
}

void expect_none_wrong(const Walks& all) { EXPECT_EQ(all.wrong, 0u) << all.first; }

TEST(Walks, EveryWayAfterEveryOtherIsRightInAnyOrderOfMoves) {
  const Walks all = walk_everywhere(10'000, Fault::none);
  expect_none_wrong(all);
  EXPECT_GT(all.results, 5 * all.walks);
}

TEST(Walks, WhatEndsOkIsRightAndTheOthersNameTheRankThatDied) {
  expect_none_wrong(walk_everywhere(4'000, Fault::death));
}

TEST(Walks, AnAbortAnywhereEndsAllAndNoResultIsWrong) {
  expect_none_wrong(walk_everywhere(4'000, Fault::abort));
}

TEST(Walks, ARankThatGivesUpAnywhereEndsAllAndNoResultIsWrong) {
  expect_none_wrong(walk_everywhere(4'000, Fault::limit));
}

TEST(Walks, WhatIsReadWhereItLiesIsRightOrTheCallFails) {
  expect_none_wrong(walk_everywhere(1'500, Fault::limit, Among::direct));
  expect_none_wrong(walk_everywhere(1'500, Fault::abort, Among::direct));
}

TEST(Walks, WhatIsCopiedIsRightOrTheCallFails) {
  expect_none_wrong(walk_everywhere(2'000, Fault::limit, Among::copied));
  expect_none_wrong(walk_everywhere(1'000, Fault::abort, Among::copied));
}

TEST(Walks, ACallThatDiffersOnOneRankEndsInMismatchOrWhereNobodyNeedsIt) {
  expect_none_wrong(walk_everywhere(4'000, Fault::stray));
}

// A rank may be in the next call before any other can detect the mismatch.
TEST(Walks, WhatComesAfterACallThatDiffersUnseenIsNeverWrong) {
  expect_none_wrong(walk_everywhere(4'000, Fault::stray, Among::one_hop));
}

TEST(Walks, LongWhatComesAfterACallThatDiffersUnseenIsNeverWrong) {
  expect_none_wrong(walk_everywhere(100'000, Fault::stray, Among::one_hop));
}

// TUTTI_WALKS walks in all, by default a million.
TEST(Walks, AMillionWalksAreRight) {
  const char* const asked = std::getenv("TUTTI_WALKS");
  const uint64_t walks = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 1'000'000;
  Walks all = walk_everywhere(walks * 6 / 10, Fault::none);
  all += walk_everywhere(walks / 10, Fault::death);
  all += walk_everywhere(walks / 10, Fault::abort);
  all += walk_everywhere(walks / 10, Fault::limit);
  all += walk_everywhere(walks / 10, Fault::stray);
  expect_none_wrong(all);
}

}  // namespace
}  // namespace tutti::simulation
