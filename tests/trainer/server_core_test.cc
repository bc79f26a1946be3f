// A parameter server's rules, without ranks: one call after the other.
#include <gtest/gtest.h>

#include <cmath>

#include "trainer/common/error.h"
#include "trainer/sync/server_core.h"

namespace tutti::train {
namespace {

ServerCore make(ServerRule rule, int workers, double rate, float start = 1) {
  const std::vector<Parameter> layout = {{"w", {1}, 0, 1}};
  return ServerCore(rule, Optimizer({"sgd", rate, 0, 0, 0}, layout, {{0, 1}}), {0, 1},
                    std::vector<float>{start}, workers);
}

ServerRule at_once(int64_t bound = 1 << 30) {
  ServerRule rule;
  rule.rounds = false;
  rule.bound = bound;
  return rule;
}

// Workers in turn, each with the gradient w of the loss w^2 / 2 where it last read: always as stale
// as there are others.
double round_robin(int workers, double rate, int pushes) {
  ServerCore core = make(at_once(), workers, rate);
  std::vector<float> read(size_t(workers), 1.0F);
  for (int i = 0; i < pushes; ++i) {
    const int w = i % workers;
    core.push(w, i / workers, std::span(&read[size_t(w)], 1));
    if (i >= workers) {
      EXPECT_EQ(core.staleness(), workers - 1);
    }
    core.read(w);
    read[size_t(w)] = core.parameters()[0];
  }
  return std::fabs(core.parameters()[0]);
}

// With staleness t, w <- w - rate * w_old converges if and only if rate < 2 sin(pi / (2 (2t + 1))).
TEST(AtOnce, ConvergesUpToTheRateThatTheoryAllowsAndDivergesBeyond) {
  for (const int workers : {1, 2, 4, 8}) {
    const double limit = 2 * std::sin(M_PI / (2 * (2 * (workers - 1) + 1)));
    EXPECT_LT(round_robin(workers, 0.9 * limit, 2000), 1e-3) << workers;
    EXPECT_FALSE(round_robin(workers, 1.1 * limit, 2000) < 1e3) << workers;  // or not a number
  }
}

TEST(AtOnce, SomebodyAheadWaitsForTheSlowestAndForNobodyWhoHasLeft) {
  ServerCore core = make(at_once(1), 3, 0.1);
  const float gradient = 1;
  const auto push = [&](int w, int64_t clock) { core.push(w, clock, std::span(&gradient, 1)); };
  push(0, 0);
  EXPECT_TRUE(core.may_read(0));
  EXPECT_EQ(core.read(0), 1);
  push(0, 1);
  EXPECT_FALSE(core.may_read(0));
  push(1, 0);
  EXPECT_FALSE(core.may_read(0));
  push(2, 0);
  EXPECT_TRUE(core.may_read(0));
  core.read(0);
  push(0, 2);
  EXPECT_FALSE(core.may_read(0));
  core.leave(1);
  EXPECT_FALSE(core.may_read(0));
  core.leave(2);
  EXPECT_TRUE(core.may_read(0));
}

TEST(AtOnce, StalenessDividesTheRateAndCompensationCorrectsTheGradient) {
  ServerRule rule = at_once();
  rule.staleness_aware = true;
  ServerCore aware = make(rule, 3, 0.5);
  const float gradient = 1;
  for (int w = 0; w < 3; ++w) aware.push(w, 0, std::span(&gradient, 1));
  EXPECT_FLOAT_EQ(aware.parameters()[0], 1 - 0.5F - 0.5F - 0.25F);
  rule = at_once();
  rule.compensation = 2;
  ServerCore corrected = make(rule, 2, 0.5);
  corrected.push(0, 0, std::span(&gradient, 1));  // not stale: 1 -> 0.5
  corrected.push(1, 0, std::span(&gradient, 1));  // read at 1: 1 + 2 * 1 * (0.5 - 1) = 0
  EXPECT_FLOAT_EQ(corrected.parameters()[0], 0.5F);
}

// A rate of 1 and Adam's: its first step is of the rate whatever the gradient, if the count of
// steps before is right.
TEST(Overflow, LeavesOutTheUpdateAndIsCounted) {
  const auto adam = [](const ServerRule& rule) {
    return ServerCore(rule, Optimizer({"adamw", 1, 0, 0, 0}, {{"w", {1}, 0, 1}}, {{0, 1}}), {0, 1},
                      std::vector<float>{0}, 2);
  };
  const float one = 1, infinite = INFINITY;
  for (const bool rounds : {true, false}) {
    ServerRule rule{.rounds = rounds, .needed = 2, .steps = 10};
    ServerCore core = adam(rule);
    EXPECT_EQ(core.push(0, 0, std::span(&infinite, 1), true), rounds);
    EXPECT_EQ(core.left_out(), !rounds);
    EXPECT_EQ(core.may_read(0), !rounds);
    if (rounds) core.push(1, 0, std::span(&one, 1));
    EXPECT_TRUE(core.left_out() && core.may_read(0));
    EXPECT_EQ(core.updates(), 1);
    EXPECT_EQ(core.skipped(), 1);
    EXPECT_EQ(core.read(0), 1);
    EXPECT_EQ(core.parameters()[0], 0);
    core.push(0, 1, std::span(&one, 1));
    if (rounds) core.push(1, 1, std::span(&one, 1));
    EXPECT_FALSE(core.left_out());
    EXPECT_EQ(core.updates(), 2);
    EXPECT_FLOAT_EQ(core.parameters()[0], -1);
    // Gone on from that.
    ServerCore later = adam(rule);
    later.resume(3, 3 * (rounds ? 1 : 2));
    later.push(0, 3, std::span(&one, 1));
    if (rounds) later.push(1, 3, std::span(&one, 1));
    EXPECT_FLOAT_EQ(later.parameters()[0], -1);
  }
}

TEST(Parts, AreEqualOrOfWholeTensorsTheLargestAsSmallAsPossible) {
  std::vector<Parameter> layout;
  for (const size_t count : {5, 1, 7, 2}) {
    const size_t offset = layout.empty() ? 0 : layout.back().offset + layout.back().count;
    layout.push_back({"w", {int64_t(count)}, offset, count});
  }
  const auto ends = [&](const char* optimizer, int servers) {
    Options o;
    o.optimizer = optimizer;
    o.servers = servers;
    std::vector<size_t> found;
    size_t next = 0;
    for (const Range& part : server_parts(o, layout)) {
      EXPECT_EQ(part.begin, next);
      found.push_back(next = part.end);
    }
    return found;
  };
  using Ends = std::vector<size_t>;
  EXPECT_EQ(ends("adamw", 4), (Ends{4, 8, 12, 15}));
  EXPECT_EQ(ends("lamb", 1), (Ends{15}));
  EXPECT_EQ(ends("lamb", 2), (Ends{6, 15}));
  EXPECT_EQ(ends("lamb", 3), (Ends{6, 13, 15}));
  EXPECT_EQ(ends("lamb", 4), (Ends{5, 6, 13, 15}));
  EXPECT_THROW(ends("lamb", 5), BadInput);
}

TEST(Rounds, TakeTheFirstGradientsOfTheStepAndDropLateOnes) {
  ServerRule rule;
  rule.needed = 2;
  rule.steps = 10;
  ServerCore core = make(rule, 3, 1, 0);
  const float one = 1, hundred = 100;
  EXPECT_TRUE(core.push(2, 0, std::span(&one, 1)));
  EXPECT_FALSE(core.may_read(2));
  EXPECT_TRUE(core.push(0, 0, std::span(&one, 1)));
  EXPECT_EQ(core.updates(), 1);
  EXPECT_TRUE(core.may_read(0) && core.may_read(2));
  EXPECT_TRUE(core.is_late(0));
  EXPECT_FALSE(core.push(1, 0, std::span(&hundred, 1)));
  EXPECT_TRUE(core.may_read(1));
  EXPECT_EQ(core.read(1), 1);
  EXPECT_EQ(core.parameters()[0], -2);
}

}  // namespace
}  // namespace tutti::train
