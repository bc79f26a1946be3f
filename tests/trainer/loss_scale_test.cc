// The loss scale against PyTorch's rule, and as text.
#include "trainer/parallel/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "trainer/parallel/optimizer.h"

namespace tutti::train {
namespace {

// What GradScaler.update() does: _amp_update_scale_ (ATen/native/AmpKernels.cpp), in its words.
void amp_update_scale(float& current_scale, int& growth_tracker, bool found_inf) {
  const double growth_factor = 2, backoff_factor = 0.5;
  const int growth_interval = 2000;
  if (found_inf) {
    current_scale = float(double(current_scale) * backoff_factor);
    growth_tracker = 0;
    return;
  }
  const int successful = growth_tracker + 1;
  if (successful == growth_interval) {
    const auto new_scale = float(double(current_scale) * growth_factor);
    if (std::isfinite(new_scale)) current_scale = new_scale;
    growth_tracker = 0;
  } else {
    growth_tracker = successful;
  }
}

TEST(LossScale, FollowsGradScaler) {
  std::mt19937 random(1);
  for (const double often : {0.5, 1e-2, 1e-3, 4e-4, 1e-4, 0.0}) {
    std::bernoulli_distribution overflows(often);
    LossScale scale;
    float current_scale = 65536;
    int growth_tracker = 0;
    int64_t skipped = 0;
    for (int step = 0; step < 300'000 && scale.scale > 0x1p-100; ++step) {
      const bool overflow = overflows(random);
      skipped += overflow ? 1 : 0;
      scale.update(overflow);
      amp_update_scale(current_scale, growth_tracker, overflow);
      ASSERT_EQ(scale.scale, current_scale) << often << " " << step;
      ASSERT_EQ(scale.good, growth_tracker);
      ASSERT_EQ(scale.skipped, skipped);
    }
  }
}

TEST(LossScale, ThatIsFixedStaysAndCountsWhatIsLeftOut) {
  LossScale scale = LossScale::parsed("1024");
  for (int step = 0; step < 5000; ++step) scale.update(step % 1000 == 0);
  EXPECT_EQ(scale.scale, 1024);
  EXPECT_EQ(scale.skipped, 5);
}

// Adam's moments are those of the updates that were made.
TEST(LossScale, StepsLeftOutAreNoneForTheOptimizer) {
  const OptimizerSettings settings{.kind = "adamw", .rate = 0.1};
  const std::vector<Parameter> layout{{"w", {3}, 0, 3, {}, true}};
  const std::vector<float> gradient{1, -2, 3};
  std::vector<float> one{1, 1, 1}, other = one;
  Optimizer(settings, layout, {{0, 3}}).step(0, {0, 3}, one, gradient);
  Optimizer late(settings, layout, {{0, 3}});
  late.begin(4, 1, 4);
  late.update({0, 3}, other, gradient);
  EXPECT_EQ(one, other);
  EXPECT_NE(one[0], 1);
}

TEST(LossScale, IsReadAsItWasWritten) {
  for (const char* text : {"65536:0:0", "dynamic:32768:17:3", "0.0009765625:1999:1"})
    EXPECT_EQ(LossScale::parsed(text).text(), text);
  LossScale grown = LossScale::parsed("dynamic:0x1p126"), shrunk = LossScale::parsed("dynamic");
  for (int64_t i = 0; i < 2 * LossScale::growth_interval; ++i) {
    grown.update(false);
    shrunk.update(true);
  }
  EXPECT_EQ(LossScale::parsed(grown.text()).scale, 0x1p127);
  EXPECT_EQ(LossScale::parsed(shrunk.text()).scale, 0x1p-126);
  EXPECT_EQ(LossScale::parsed("").text(), "dynamic:65536:0:0");
  EXPECT_EQ(LossScale::parsed("dynamic").text(), "dynamic:65536:0:0");
  EXPECT_EQ(LossScale::parsed("dynamic:1024").text(), "dynamic:1024:0:0");
  EXPECT_EQ(LossScale::parsed("1024").text(), "1024:0:0");
}

TEST(LossScale, OfOtherTextsIsRefused) {
  for (const char* text : {"1000", "0", "-2", "inf", "nan", "1e300", "two", "1024x", "1024:3",
                           "1024:3:4:5", "dynamic:", "dynamic:x", "static", "1024:-1:0", ":1:2"})
    EXPECT_THROW(LossScale::parsed(text), BadInput) << text;
}

}  // namespace
}  // namespace tutti::train
