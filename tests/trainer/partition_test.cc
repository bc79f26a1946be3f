// Where models are cut, and into how many micro-batches.
#include "trainer/pipeline/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "trainer/common/random.h"

namespace tutti::train {
namespace {

double slowest(const std::vector<double>& seconds, const std::vector<Range>& parts,
               std::span<const int> widths) {
  double most = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    double sum = 0;
    for (size_t i = parts[p].begin; i < parts[p].end; ++i) sum += seconds[i];
    most = std::max(most, sum / widths[p]);
  }
  return most;
}

// All ways to cut layers [begin, n) into `parts`.
double best_of_all(const std::vector<double>& seconds, size_t begin, std::span<const int> widths) {
  const size_t parts = widths.size();
  if (parts == 1) return slowest(seconds, {{begin, seconds.size()}}, widths);
  double best = std::numeric_limits<double>::infinity();
  for (size_t end = begin + 1; end + parts - 1 <= seconds.size(); ++end)
    best = std::min(best, std::max(slowest(seconds, {{begin, end}}, widths),
                                   best_of_all(seconds, end, widths.subspan(1))));
  return best;
}

TEST(BalancedCut, IsTheBestOfAllCuts) {
  for (uint64_t seed = 0; seed < 30; ++seed)
    for (size_t layers = 1; layers <= 9; ++layers)
      for (size_t parts = 1; parts <= layers; ++parts) {
        std::vector<double> seconds;
        for (size_t i = 0; i < layers; ++i) seconds.push_back(fraction(mixed(seed, layers, i)));
        std::vector<int> widths;
        for (size_t p = 0; p < parts; ++p) widths.push_back(1 << mixed(seed, parts, p) % 3);
        const auto cut = balanced_cut(seconds, widths);
        ASSERT_EQ(cut.size(), parts);
        size_t next = 0;
        for (const Range& part : cut) {
          EXPECT_EQ(part.begin, next);
          EXPECT_GT(part.end, part.begin);
          next = part.end;
        }
        EXPECT_EQ(next, layers);
        EXPECT_NEAR(slowest(seconds, cut, widths), best_of_all(seconds, 0, widths), 1e-12);
      }
}

ModelFacts model_with_skips() {
  ModelFacts facts;
  for (int i = 0; i < 6; ++i) facts.layers.push_back({"layer", {5, 3, i + 1}, 0});
  facts.skips.push_back({"long", 0, 5, {5, 7}, false});
  facts.skips.push_back({"short", 1, 2, {5, 2}, false});
  facts.skips.push_back({"shared", 1, 4, {9, 9}, true});
  return facts;
}

TEST(Ports, OfSkipsGoStraightOrThroughAll) {
  const auto parts = cut_layers({1, 2, 1, 2});
  const std::vector<int> widths{1, 1, 2, 4};
  const auto straight = ports_of(model_with_skips(), parts, widths, true);
  ASSERT_EQ(straight.size(), 5u);  // "short" stays within a part
  EXPECT_EQ(straight[1].sizes, (std::vector<int64_t>{1, 3, 3}));
  EXPECT_EQ(straight[3].from, 0);
  EXPECT_EQ(straight[3].to, 3);
  EXPECT_EQ(straight[3].sizes, (std::vector<int64_t>{1, 7}));
  EXPECT_EQ(straight[3].once, 0);
  EXPECT_EQ(straight[4].once, 4);  // on the ranks of the part where layer 4 is
  EXPECT_EQ(straight[4].sizes, (std::vector<int64_t>{9, 9}));
  const auto through = ports_of(model_with_skips(), parts, widths, false);
  EXPECT_EQ(through.size(), 3u + 3u + 2u);
  for (const Port& port : through) EXPECT_EQ(port.to, port.from + 1);
}

// The best of all numbers of micro-batches, by the model, is among the promising ones or within a
// percent of one of them.
TEST(PromisingMicroBatches, HaveTheModelsOptimum) {
  for (const double fixed : {0.0001, 0.001, 0.01})
    for (const double each : {0.0001, 0.001, 0.01})
      for (int stages = 2; stages <= 8; ++stages)
        for (const int64_t samples : {8, 24, 64, 100}) {
          const StageTime time =
              fit(1, fixed + each, double(samples), fixed + each * double(samples));
          EXPECT_NEAR(time.fixed, fixed, 1e-12);
          EXPECT_NEAR(time.each, each, 1e-12);
          const auto takes = [&](int m) {
            return (m + stages - 1) * (fixed + each * double(samples) / m);
          };
          double best = std::numeric_limits<double>::infinity(), found = best;
          for (int m = 1; m <= samples; ++m) best = std::min(best, takes(m));
          for (const int m : promising_micro_batches(time, stages, samples, 1)) {
            EXPECT_GE(m, 1);
            EXPECT_LE(m, samples);
            found = std::min(found, takes(m));
          }
          EXPECT_LE(found, 1.01 * best);
          const auto multiples = promising_micro_batches(time, stages, samples, stages);
          for (const int m : multiples) EXPECT_EQ(m % stages, 0);
        }
}

}  // namespace
}  // namespace tutti::train
