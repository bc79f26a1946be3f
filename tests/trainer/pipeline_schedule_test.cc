// The pipeline schedules against the formulas of the literature, and the checker against mutants.
#include "trainer/pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "trainer/common/random.h"
#include "trainer/pipeline/figures.h"

namespace tutti::train {
namespace {

// The ports from each part to the next.
std::vector<Port> chain(int parts) {
  std::vector<Port> all;
  for (int i = 0; i + 1 < parts; ++i) all.push_back({i, i + 1});
  return all;
}

using Kind = Action::Kind;

PipelineRun run_of(const PipelineShape& shape, const PartTimes& times) {
  const auto ports = chain(shape.parts());
  const Schedule schedule = make_schedule(shape, ports);
  EXPECT_EQ(check_schedule(schedule, shape, ports), "")
      << shape.schedule << " " << shape.stages << " " << shape.micro_batches;
  return simulate(schedule, shape, std::vector(size_t(shape.parts()), times));
}

void for_each_shape(const std::function<void(int k, int m, const PartTimes& times)>& body) {
  for (int k = 1; k <= 8; ++k)
    for (int m = 1; m <= 19; ++m)
      for (const PartTimes times : {PartTimes{1, 2}, PartTimes{1, 1}, PartTimes{3, 5}})
        body(k, m, times);
}

TEST(PipelineSchedule, NaiveUsesOneStageAtATime) {
  for_each_shape([](int k, int m, const PartTimes& t) {
    const PipelineRun run = run_of({"naive", k, m}, t);
    EXPECT_DOUBLE_EQ(run.makespan, m * k * (t.forward + t.backward));
    EXPECT_DOUBLE_EQ(run.utilisation, 1.0 / k);
    EXPECT_EQ(run.peak_live, std::vector<int>(size_t(k), 1));
  });
}

TEST(PipelineSchedule, GpipeTakesTheFormulasTimeAndKeepsAll) {
  for_each_shape([](int k, int m, const PartTimes& t) {
    const PipelineRun run = run_of({"gpipe", k, m}, t);
    EXPECT_DOUBLE_EQ(run.makespan, (m + k - 1) * (t.forward + t.backward));
    EXPECT_NEAR(run.utilisation, double(m) / (m + k - 1), 1e-12);
    EXPECT_EQ(run.peak_live, std::vector<int>(size_t(k), m));
  });
  EXPECT_NEAR(run_of({"gpipe", 4, 4}, {1, 2}).utilisation, 48.0 / 84, 1e-12);
  EXPECT_NEAR(run_of({"gpipe", 4, 8}, {1, 2}).utilisation, 96.0 / 132, 1e-12);
}

TEST(PipelineSchedule, OneForwardOneBackwardTakesTheSameTimeAndKeepsFew) {
  for_each_shape([](int k, int m, const PartTimes& t) {
    const PipelineRun run = run_of({"1f1b", k, m}, t);
    EXPECT_DOUBLE_EQ(run.makespan, (m + k - 1) * (t.forward + t.backward));
    EXPECT_NEAR(run.utilisation, double(m) / (m + k - 1), 1e-12);
    for (int s = 0; s < k; ++s) EXPECT_EQ(run.peak_live[size_t(s)], std::min(m, k - s));
  });
}

TEST(PipelineSchedule, InterleavedFillsInSmallerSteps) {
  for (int k = 1; k <= 8; ++k)
    for (int v = 1; v <= 4; ++v)
      for (int m = k; m <= 4 * k; m += k)
        for (const PartTimes t : {PartTimes{1, 2}, PartTimes{1, 1}, PartTimes{3, 5}}) {
          const PipelineRun run = run_of({"interleaved", k, m, v}, t);
          EXPECT_DOUBLE_EQ(run.makespan, (m * v + k - 1) * (t.forward + t.backward))
              << k << " " << v << " " << m;
          EXPECT_NEAR(run.utilisation, double(m * v) / (m * v + k - 1), 1e-12);
          EXPECT_EQ(run.peak_live[0],
                    m == k ? m * v : std::min(m * v, 2 * (k - 1) + (v - 1) * k + 1));
        }
}

TEST(PipelineSchedule, ZeroBubbleH1LeavesAThirdOfTheGaps) {
  for (int k = 1; k <= 8; ++k)
    for (int m = 1; m <= 4 * k; ++m) {
      const PipelineRun run = run_of({"zb-h1", k, m}, {1, 1, 1});
      for (const int live : run.peak_live) EXPECT_LE(live, std::min(m, k));
      if (m < k) continue;  // the formula is for a pipeline that fills
      EXPECT_DOUBLE_EQ(run.makespan, 3 * m + k - 1) << k << " " << m;
      EXPECT_NEAR(run.utilisation, 3.0 * m / (3 * m + k - 1), 1e-12);
      EXPECT_EQ(run.peak_live, std::vector<int>(size_t(k), k));
    }
}

// Calls the body for all widths 1, 2 and 4 of up to four stages.
void for_each_widths(const std::function<void(const StageWidths& widths)>& body) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int n = 0; n < 1 << 2 * stages; ++n) {
      std::vector<int> widths;
      widths.reserve(size_t(stages));
      for (int s = 0; s < stages; ++s) widths.push_back(1 << (n >> 2 * s & 3));
      if (std::count(widths.begin(), widths.end(), 8) == 0) body(StageWidths(widths));
    }
}

// A stage takes w times as long as one that a single rank holds: `alike` is that one's.
std::vector<PartTimes> in_proportion(const StageWidths& widths, const PartTimes& alike) {
  std::vector<PartTimes> times;
  times.reserve(size_t(widths.stages()));
  for (int s = 0; s < widths.stages(); ++s)
    times.push_back({widths.width(s) * alike.forward, widths.width(s) * alike.backward, 0});
  return times;
}

TEST(PipelineSchedule, RanksThatHoldAStageTogetherTakeTheFormulasTimeAndKeepFew) {
  for_each_widths([](const StageWidths& widths) {
    for (int m = widths.widest(); m <= 16; m *= 2)
      for (const PartTimes t : {PartTimes{1, 2}, PartTimes{1, 1}, PartTimes{3, 5}}) {
        std::vector<PipelineRun> runs;
        for (const char* name : {"gpipe", "1f1b"}) {
          const PipelineShape shape{name, widths.stages(), m, 1, widths};
          auto ports = chain(shape.parts());
          for (int to = 2; to < shape.parts(); ++to) {
            ports.push_back({0, to});
            ports.push_back({0, to, widths.width(to)});
          }
          const Schedule schedule = make_schedule(shape, ports);
          ASSERT_EQ(check_schedule(schedule, shape, ports), "");
          runs.push_back(simulate(schedule, shape, in_proportion(widths, t)));
        }
        const double formula = (m + widths.ranks() - 1) * (t.forward + t.backward);
        ASSERT_EQ(runs[0].makespan, runs[1].makespan);
        ASSERT_LE(runs[0].makespan, formula);
        if (widths.width(widths.stages() - 1) == 1) {
          ASSERT_EQ(runs[0].makespan, formula);
        }
        for (int r = 0; r < widths.ranks(); ++r) {
          int later = 0;
          for (int s = widths.stage(r) + 1; s < widths.stages(); ++s)
            later += 2 * widths.width(s) - 1;
          const int w = widths.width(widths.stage(r));
          ASSERT_EQ(runs[0].peak_live[size_t(r)], m / w);
          ASSERT_EQ(runs[1].peak_live[size_t(r)], std::min(m / w, (later + w - 1) / w + 1));
        }
      }
  });
}

TEST(PipelineSchedule, ARankMoreForAStageTwiceAsSlowGivesTheTimeOfEqualStages) {
  const std::vector<PartTimes> heavy{{1, 2}, {2, 4}, {1, 2}};
  const auto takes = [&](const StageWidths& widths, const std::vector<PartTimes>& times) {
    const PipelineShape shape{"1f1b", 3, 32, 1, widths};
    return simulate(make_schedule(shape, chain(3)), shape, times).makespan;
  };
  const StageWidths single({1, 1, 1}), wider({1, 2, 1});
  EXPECT_EQ(takes(single, std::vector(3, PartTimes{1, 2})), 3 * (32 + 2));
  EXPECT_GE(takes(single, heavy), 3 * 2 * 32);
  EXPECT_EQ(takes(wider, heavy), 3 * (32 + 3));
}

// The formula is for gaps that weight gradients can fill.
TEST(PipelineSchedule, ZeroBubbleH1TakesTheFormulasTimeForOtherProportions) {
  for (const PartTimes t : {PartTimes{3, 3, 3}, PartTimes{2, 2, 1}, PartTimes{4, 5, 3}})
    for (int k = 1; k <= 8; ++k)
      for (int m = 2 * k; m <= 4 * k; ++m)
        EXPECT_DOUBLE_EQ(
            run_of({"zb-h1", k, m}, t).makespan,
            m * (t.forward + t.backward + t.weight) + (k - 1) * (t.forward + t.backward - t.weight))
            << k << " " << m;
}

// Portals between any two parts, and weights that are sent once.
TEST(PipelineSchedule, PortalsDoNotBlock) {
  for (int k = 1; k <= 6; ++k)
    for (const std::string& name : pipeline_schedules()) {
      const int v = name == "interleaved" ? 3 : 1;
      for (const int m : {k, 2 * k, 3 * k}) {
        const PipelineShape shape{name, k, m, v};
        for (int from = 0; from < shape.parts(); ++from)
          for (int to = from + 2; to < shape.parts(); ++to) {
            auto ports = chain(shape.parts());
            ports.push_back({from, to, false});
            ports.push_back({0, shape.parts() - 1, true});
            const Schedule schedule = make_schedule(shape, ports);
            ASSERT_EQ(check_schedule(schedule, shape, ports), "")
                << name << " " << k << " " << m << " " << from << "-" << to;
          }
      }
    }
}

// However long anything takes: no more messages are kept than micro-batches are alive.
TEST(PipelineSchedule, UnevenTimesNeitherBlockNorPileUpMessages) {
  for (const std::string& name : pipeline_schedules()) {
    const PipelineShape shape{name, 4, 12, name == "interleaved" ? 2 : 1};
    auto ports = chain(shape.parts());
    ports.push_back({0, 3});
    const Schedule schedule = make_schedule(shape, ports);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      std::vector<PartTimes> times;
      for (uint64_t part = 0; part < uint64_t(shape.parts()); ++part) {
        const auto time = [&](uint64_t kind) { return fraction(mixed(seed, part, kind)); };
        times.push_back({time(0), time(1), time(2)});
      }
      const PipelineRun run = simulate(schedule, shape, times);
      ASSERT_TRUE(run.stuck.empty());
      for (const auto* peaks : {&run.peak_activations, &run.peak_gradients})
        for (size_t c = 0; c < peaks->size(); ++c)
          EXPECT_LE((*peaks)[c], run.peak_live[size_t(ports[c].from % 4)]) << name << " " << c;
    }
  }
}

TEST(PipelineSchedule, TheCheckerRefusesMutants) {
  for (const std::string& name : pipeline_schedules()) {
    const PipelineShape shape{name, 4, 8, name == "interleaved" ? 2 : 1};
    const auto ports = chain(shape.parts());
    const Schedule whole = make_schedule(shape, ports);
    int mutants = 0;
    for (size_t s = 0; s < whole.size(); ++s)
      for (size_t i = 0; i < whole[s].size(); ++i) {
        Schedule dropped = whole, twice = whole, other = whole;
        dropped[s].erase(dropped[s].begin() + std::ptrdiff_t(i));
        twice[s].insert(twice[s].begin() + std::ptrdiff_t(i), twice[s][i]);
        other[s][i].micro_batch = (other[s][i].micro_batch + 1) % 8;
        for (const Schedule& mutant : {dropped, twice, other}) {
          EXPECT_NE(check_schedule(mutant, shape, ports), "") << name << " " << s << " " << i;
          ++mutants;
        }
      }
    EXPECT_GT(mutants, 300);
  }
  // What one rank of a stage does is not another one's.
  const PipelineShape wide{"1f1b", 3, 8, 1, StageWidths({1, 2, 1})};
  Schedule swapped = make_schedule(wide, chain(3));
  std::swap(swapped[1], swapped[2]);
  EXPECT_NE(check_schedule(swapped, wide, chain(3)).find("another rank's"), std::string::npos);
  // All send first and receive later than the other can send: with one buffer they wait in a
  // cycle.
  const PipelineShape shape{"gpipe", 2, 4};
  const auto ports = chain(2);
  Schedule late = make_schedule(shape, ports);
  std::stable_partition(late[0].begin(), late[0].end(),
                        [](const Action& a) { return a.kind == Kind::receive; });
  EXPECT_NE(check_schedule(late, shape, ports).find("wait for each other"), std::string::npos);
}

TEST(PipelineSchedule, ShapesThatAreNotAllowedAreRefused) {
  EXPECT_THROW(make_schedule({"2f2b", 2, 2}, chain(2)), std::invalid_argument);
  EXPECT_THROW(make_schedule({"interleaved", 4, 6, 2}, chain(8)), std::invalid_argument);
  EXPECT_THROW(make_schedule({"gpipe", 4, 6, 2}, chain(8)), std::invalid_argument);
  EXPECT_THROW(make_schedule({"gpipe", 4, 0}, chain(4)), std::invalid_argument);
  const StageWidths wide({1, 2});
  EXPECT_THROW(make_schedule({"1f1b", 2, 5, 1, wide}, chain(2)), std::invalid_argument);
  EXPECT_THROW(make_schedule({"1f1b", 3, 4, 1, wide}, chain(3)), std::invalid_argument);
  EXPECT_THROW(make_schedule({"naive", 2, 4, 1, wide}, chain(2)), std::invalid_argument);
  EXPECT_THROW(make_schedule({"zb-h1", 2, 4, 1, wide}, chain(2)), std::invalid_argument);
}

TEST(PipelineDrawing, IsThePictureOfTheTextbook) {
  const PipelineShape shape{"1f1b", 2, 3};
  EXPECT_EQ(drawing_text(simulate(make_schedule(shape, chain(2)), shape), shape),
            "stage 0  f0 f1 .. .. b0 -- f2 b1 -- .. b2 --\n"
            "stage 1  .. f0 b0 -- f1 b1 -- f2 b2 --\n");
  const PipelineShape zero{"zb-h1", 2, 2};
  EXPECT_EQ(drawing_text(simulate(make_schedule(zero, chain(2)), zero), zero),
            "stage 0  f0 f1 .. b0 w0 b1 w1\n"
            "stage 1  .. f0 b0 f1 b1 w0 w1\n");
  const PipelineShape wide{"gpipe", 2, 2, 1, StageWidths({1, 2})};
  EXPECT_EQ(drawing_text(simulate(make_schedule(wide, chain(2)), wide), wide),
            "stage 0    f0 f1 .. .. .. .. .. b0 -- b1 --\n"
            "stage 1.0  .. f0 -- b0 -- -- --\n"
            "stage 1.1  .. .. f1 -- b1 -- -- --\n");
}

}  // namespace
}  // namespace tutti::train
