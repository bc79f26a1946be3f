#include "bench/builds/verdict.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tutti::bench::builds {
namespace {

using Samples = std::vector<Sample>;

// Turns of one cell in one start, all alike.
void add(Samples& samples, uint32_t cell, uint32_t start, size_t turns, double hop, double base,
         double next) {
  for (size_t i = 0; i < turns; ++i) samples.push_back({cell, start, hop, hop, base, next});
}

TEST(Verdict, EachStartCountsAsOneRatio) {
  Samples samples;
  add(samples, 0, 0, 100, 60, 1.0, 1.1);
  add(samples, 0, 1, 10, 60, 1.1, 1.0);
  const Verdict verdict = judge(samples, 1);
  ASSERT_EQ(verdict.states.size(), 1u);
  const Row& row = verdict.states[0].rows.at(0);
  EXPECT_EQ(row.starts, 2u);
  EXPECT_EQ(row.turns, 110u);
  EXPECT_NEAR(row.ratio, 1, 1e-9);
  EXPECT_NEAR(row.error_percent, 100 * std::log(1.1), 1e-9);
}

TEST(Verdict, StatesOfTheMachineAreApart) {
  Samples samples;
  add(samples, 0, 0, 20, 60, 1, 1.5);
  samples.push_back({0, 0, 60, 400, 1, 9});  // saw it change
  add(samples, 0, 0, 20, 400, 4, 4);
  const Verdict verdict = judge(samples, 1);
  ASSERT_EQ(verdict.states.size(), 2u);
  EXPECT_EQ(verdict.flips, 1u);
  EXPECT_EQ(verdict.states[0].hop_ns, 60);
  EXPECT_NEAR(verdict.states[0].rows.at(0).ratio, 1.5, 1e-9);
  EXPECT_NEAR(verdict.states[1].rows.at(0).ratio, 1, 1e-9);
}

TEST(Verdict, MeanAndWorstAreOverTheCells) {
  Samples samples;
  add(samples, 0, 0, 10, 60, 1, 2);
  add(samples, 1, 0, 10, 60, 2, 1);
  add(samples, 2, 0, 4, 60, 1, 100);  // too few turns
  const State state = judge(samples, 3).states.at(0);
  EXPECT_EQ(state.rows.size(), 2u);
  EXPECT_NEAR(state.mean_ratio, 1, 1e-9);
  EXPECT_EQ(state.rows[state.worst].cell, 0u);
  EXPECT_TRUE(exceeds(judge(samples, 3), 99));
  EXPECT_FALSE(exceeds(judge(samples, 3), 101));
}

TEST(Verdict, NothingIsSaidOfNothing) { EXPECT_TRUE(judge({}, 1).states.empty()); }

}  // namespace
}  // namespace tutti::bench::builds
