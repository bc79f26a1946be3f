#include "bench/stats.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tutti::bench {
namespace {

TEST(Statistics, PercentilesAreNearestRanks) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1);  // 100 down to 1
  const Summary s = summarise(values);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.median, 50.5);
  EXPECT_EQ(s.p95, 95);
  EXPECT_EQ(s.p99, 99);
}

TEST(Statistics, OfFewBatchesTheTailIsTheSlowest) {
  const Summary s = summarise(std::vector<double>{3, 1, 2});
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.median, 2);
  EXPECT_EQ(s.p95, 3);
  EXPECT_EQ(s.p99, 3);
  EXPECT_EQ(summarise(std::vector<double>{7}).p99, 7);
}

TEST(MachineState, AlikeHopsKeepEverything) {
  const StateFilter f = majority_state(std::vector<double>{80, 90, 85, 100});
  EXPECT_EQ(f.keep, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(f.hop_ns, 87.5);
}

TEST(MachineState, OnlyTheCommonerStateCounts) {
  const StateFilter f = majority_state(std::vector<double>{80, 82, 84, 430, 440, 81, 80, 82});
  // The segments around the flips saw both states.
  EXPECT_EQ(f.keep, (std::vector<bool>{true, true, false, false, false, true, true}));
  EXPECT_NEAR(f.hop_ns, 82, 2);
}

TEST(MachineState, TheSlowStateMayBeTheCommonerOne) {
  const StateFilter f = majority_state(std::vector<double>{80, 82, 430, 440, 435});
  EXPECT_EQ(f.keep, (std::vector<bool>{false, false, true, true}));
  EXPECT_NEAR(f.hop_ns, 436, 2);
}

TEST(MachineState, UnknownHopsOrNothingButFlipsKeepEverything) {
  EXPECT_EQ(majority_state(std::vector<double>{0, 0, 0}).keep, (std::vector<bool>{true, true}));
  EXPECT_EQ(majority_state(std::vector<double>{80, 430, 80}).keep, (std::vector<bool>{true, true}));
}

}  // namespace
}  // namespace tutti::bench
