// The state machine of trials: what is tried when, what is settled, and that all ranks settle
// alike.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lib/select/trial.h"

namespace tutti {
namespace {

using Times = std::vector<uint64_t>;  // of each way, in nanoseconds

// Ranks that call in step and hear each other's verdicts at the end of the call that tells them.
class Ranks {
 public:
  Ranks(size_t ranks, uint32_t ways, bool long_calls = false)
      : ranks_(ranks, Trial(ways, long_calls)) {}

  // One call; `times` by rank. Returns the way that it went.
  uint32_t call(const std::vector<Times>& times) {
    std::vector<uint32_t> ways;
    for (Trial& each : ranks_) ways.push_back(each.begin());
    for (const uint32_t way : ways) EXPECT_EQ(way, ways[0]) << "all ranks go the same way";
    std::vector<Verdict> verdicts;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      Trial& trial = ranks_[rank];
      timed_ += trial.is_timed();
      if (trial.is_timed()) trial.tell(times[rank][ways[0]]);
      if (trial.is_open()) verdicts.push_back(trial.verdict());
    }
    EXPECT_TRUE(verdicts.empty() || verdicts.size() == ranks_.size());
    if (!verdicts.empty()) {
      for (Trial& each : ranks_) each.settle(verdicts);
    }
    return ways[0];
  }
  uint32_t calls(const std::vector<Times>& times, uint32_t count) {
    uint32_t other = 0;
    for (uint32_t i = 0; i < count; ++i) other += call(times) != ranks_[0].settled();
    return other;
  }
  const Trial& operator[](size_t rank) const { return ranks_[rank]; }
  uint32_t timed() const { return timed_; }

 private:
  std::vector<Trial> ranks_;
  uint32_t timed_ = 0;
};

TEST(Trial, TheFastestWayIsSettledAfterAFewCalls) {
  Ranks ranks(2, 4);
  ranks.calls({{400, 100, 200, 300}, {400, 100, 200, 300}}, 30);
  EXPECT_EQ(ranks[0].settled(), 1u);
  EXPECT_EQ(ranks[1].settled(), 1u);
  EXPECT_EQ(ranks[0].median_ns(1), 100u);
}

TEST(Trial, LongCallsSettleAfterTwoOfEachWay) {
  Ranks ranks(2, 4, true);
  ranks.calls({{400, 100, 200, 300}, {400, 100, 200, 300}}, 9);
  EXPECT_EQ(ranks[0].settled(), 1u);
  EXPECT_EQ(ranks[1].settled(), 1u);
  ranks.calls({{100, 400, 120, 300}, {100, 400, 120, 300}}, 256 + 12 + 1);
  EXPECT_EQ(ranks[0].settled(), 0u);
  ranks.calls({{200, 190, 150, 300}, {200, 190, 150, 300}}, 512 + 12 + 1);
  EXPECT_EQ(ranks[0].settled(), 2u);
}

TEST(Trial, TenThousandLongCallsLoseAtMostOnePercent) {
  const Times times{150, 100, 140, 130, 120, 180};
  Ranks ranks(1, 6, true);
  uint64_t spent = 0;
  for (int i = 0; i < 10'000; ++i) spent += times[ranks.call({times})];
  EXPECT_EQ(ranks[0].settled(), 1u);
  EXPECT_LE(spent, 10'000u * 101);
}

TEST(Trial, AllRanksCountAlike) {
  Ranks ranks(3, 2);
  // The third rank alone finds the first way faster, but by less.
  ranks.calls({{150, 100}, {150, 100}, {100, 120}}, 30);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks[rank].settled(), 1u);
}

TEST(Trial, TheFirstCallsGoAllWaysAndLaterOnesHardlyAny) {
  const std::vector<Times> times{{200, 100, 150}, {200, 100, 150}};
  Ranks ranks(2, 3);
  std::vector<uint32_t> went(3);
  for (int i = 0; i < 18; ++i) ++went[ranks.call(times)];
  EXPECT_EQ(went, std::vector<uint32_t>({6, 6, 6}));
  EXPECT_LE(ranks.calls(times, 9'982), 36u);
}

// A program that makes few calls gets what is expected to be fastest.
TEST(Trial, TheFirstCallsGoTheFirstWay) {
  Ranks ranks(1, 8);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ranks.call({Times(8, 100)}), 0u);
  EXPECT_EQ(ranks.call({Times(8, 100)}), 1u);
}

// What the trials of 10,000 calls cost against the settled way, the first look included.
TEST(Trial, TenThousandCallsLoseAtMostOnePercentWhereTheWaysDifferByHalf) {
  const Times times{150, 100, 140, 130, 120, 150};
  Ranks ranks(1, 6);
  uint64_t spent = 0;
  for (int i = 0; i < 10'000; ++i) spent += times[ranks.call({times})];
  EXPECT_EQ(ranks[0].settled(), 1u);
  EXPECT_LE(spent, 10'000u * 101);
}

// Ways that pass through more memory the longer they go: what a stretch's first calls cost is not
// what the way costs.
TEST(Trial, AWayThatWarmsUpSlowlyIsTakenInTheSecondLook) {
  Ranks ranks(2, 3);
  uint32_t last = 0, in_a_row = 0;
  for (int i = 0; i < 500; ++i) {
    const Times times{100, 120, in_a_row < 6 ? 150u : 80u};
    const uint32_t went = ranks.call({times, times});
    in_a_row = went == last ? in_a_row + 1 : 1;
    last = went;
  }
  EXPECT_EQ(ranks[0].settled(), 2u);
  EXPECT_EQ(ranks[0].median_ns(2), 80u);
}

TEST(Trial, ALongCallThatWasHeldUpDoesNotDecide) {
  Ranks ranks(2, 2, true);
  for (int i = 0; i < 5; ++i) {
    const uint64_t fast = i == 3 ? 1'000'000 : 100;
    ranks.call({{200, fast}, {200, fast}});
  }
  EXPECT_EQ(ranks[0].settled(), 1u);
}

TEST(Trial, ATimeThatWasHeldUpDoesNotDecide) {
  Ranks ranks(2, 2);
  std::vector<Times> times{{200, 100}, {200, 100}};
  for (int i = 0; i < 15; ++i) {
    times[0][1] = i == 4 ? 1'000'000 : 100;
    ranks.call(times);
  }
  EXPECT_EQ(ranks[0].settled(), 1u);
}

TEST(Trial, AMachineThatChangesIsNoticed) {
  Ranks ranks(2, 2);
  ranks.calls({{160, 100}, {160, 100}}, 1'000);
  EXPECT_EQ(ranks[0].settled(), 1u);
  ranks.calls({{100, 130}, {100, 130}}, 4'096 + 1'024);
  EXPECT_EQ(ranks[0].settled(), 0u);
}

TEST(Trial, WhatIsHardlyBetterChangesNothing) {
  Ranks ranks(2, 2);
  ranks.calls({{200, 100}, {200, 100}}, 100);
  ranks.calls({{98, 100}, {98, 100}}, 20'000);
  EXPECT_EQ(ranks[0].settled(), 1u);
}

TEST(Trial, AHopelessWayIsLookedAtRarely) {
  const std::vector<Times> times{{100, 1'000}};
  Ranks ranks(1, 2);
  ranks.calls(times, 100);
  EXPECT_LE(ranks.calls(times, 8 * 4'096), 9u) << "few calls in each fourth look";
}

TEST(Trial, AVerdictTellsHowMuchLongerEachWayTook) {
  Trial trial(4);
  const Times times{100, 200, 350, 1'600};
  for (int i = 0; i < 24; ++i) {
    const uint32_t way = trial.begin();
    if (trial.is_timed()) trial.tell(times[way]);
  }
  trial.begin();
  ASSERT_TRUE(trial.is_open());
  EXPECT_EQ(part_of(trial.verdict(), 0), 0u);
  EXPECT_EQ(part_of(trial.verdict(), 1), 32u);
  EXPECT_EQ(part_of(trial.verdict(), 2), 58u);
  EXPECT_EQ(part_of(trial.verdict(), 3), 63u);  // the most that can be told
  EXPECT_EQ(trial.verdict() >> 48, 0u);
}

TEST(Trial, OneThatIsNeverSettledGoesOn) {
  Trial trial(2);
  for (int i = 0; i < 20'000; ++i) {
    trial.begin();
    if (trial.is_timed()) trial.tell(100);
  }
  EXPECT_GE(trial.look(), 5u);
  EXPECT_EQ(trial.settled(), 0u);
}

TEST(Trial, OneWayIsNoChoice) {
  Trial trial(1);
  for (int i = 0; i < 5'000; ++i) EXPECT_EQ(trial.begin(), 0u);
}

}  // namespace
}  // namespace tutti
