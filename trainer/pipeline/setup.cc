// Decides where a model is cut into stages and into how many micro-batches a step is: measures
// both.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "trainer/common/faults.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/pipeline/stage.h"

namespace tutti::train {
namespace {

// Measures numbers of micro-batches; collective over the grid. Rank 0's times are those of all.
struct Trials {
  const Options& options;
  const Data& data;
  const Grid& grid;
  Stage& stage;
  const ModelFacts& facts;

  // The least of three measurements.
  template <class Measured>
  double least(int micro_batches, const Measured& measured) const {
    Options trial = options;
    trial.shards = int64_t(micro_batches) * trial.dp;
    Timeline timeline(false);
    Pipeline pipeline(trial, data, grid, timeline, stage, plan_pipeline(trial, facts));
    double seconds = INFINITY;
    for (int i = 0; i < 3; ++i) seconds = std::min(seconds, measured(pipeline));
    grid.all.broadcast<double>(std::span(&seconds, 1), 0);
    return seconds;
  }
  // Seconds of all passes of a micro-batch in the stage that takes longest.
  double slowest_stage(int micro_batches) const {
    return least(micro_batches, [&](Pipeline& pipeline) {
      pipeline.run(0);
      double busy = pipeline.busy();
      grid.pipeline.allreduce<double>(std::span(&busy, 1), TUTTI_MAX);
      return busy / micro_batches;
    });
  }
  // Seconds of a whole step, without the exchange of gradients between copies.
  double step(int micro_batches) const {
    return least(micro_batches, [&](Pipeline& pipeline) {
      grid.all.barrier();
      const double from = now();
      pipeline.run(0);
      grid.all.barrier();
      return now() - from;
    });
  }
};

// The number of micro-batches with the fastest step; `words` says how it was found.
int best_micro_batches(const Trials& trials, std::string& words) {
  const Options& o = trials.options;
  const int multiple = o.schedule == "interleaved" ? o.pp : 1;
  const int64_t samples = o.batch / o.dp;
  // Two sizes of micro-batches, to separate the fixed time from the time per sample.
  const auto few = int(std::clamp<int64_t>(o.pp, multiple, samples));
  const auto many = int(std::min<int64_t>(4L * o.pp, samples / multiple * multiple));
  StageTime time;
  if (few < many)
    time = fit(double(samples) / few, trials.slowest_stage(few), double(samples) / many,
               trials.slowest_stage(many));
  std::vector<std::string> tried;
  double least = INFINITY;
  int best = few;
  for (const int m : promising_micro_batches(time, o.pp, samples, multiple)) {
    const double seconds = trials.step(m);
    tried.push_back(fmt::format("{}: {:.1f} ms", m, 1e3 * seconds));
    if (seconds >= least) continue;
    least = seconds;
    best = m;
  }
  words = fmt::format(
      "micro-batches   {}, because a stage takes {:.2f} ms and {:.3f} ms a sample, and a step of "
      "{}",
      best, 1e3 * time.fixed, 1e3 * time.each, fmt::join(tried, ", of "));
  return best;
}

}  // namespace

RankPipeline make_pipeline(Options& options, const Data& data, const Grid& grid, Replica& replica,
                           Timeline& timeline) {
  RankPipeline made;
  // One copy of the model is measured, while the others wait for the outcome.
  const bool profiled = options.stages == "profile";
  const bool timed = profiled && grid.data.rank() == 0 && grid.pipeline.rank() == 0;
  const int64_t samples = std::max<int64_t>(1, options.batch / options.shards);
  if (timed) fault_point("profile");
  ModelFacts facts =
      facts_of(replica, samples_of(data, options.seed, 0, options.batch, 0, samples), timed);
  std::vector<double> seconds;
  for (const ModelFacts::Layer& layer : facts.layers) seconds.push_back(layer.seconds);
  if (profiled) grid.all.broadcast<double>(seconds, 0);
  for (size_t i = 0; i < seconds.size(); ++i) facts.layers[i].seconds = seconds[i];

  PipelinePlan plan = plan_pipeline(options, facts);
  const int number = plan.shape.widths.stage(grid.pipeline.rank());
  made.stage = std::make_shared<Stage>(replica, plan, number, options);
  if (options.micro_batches == "auto") {
    const Trials trials{options, data, grid, *made.stage, facts};
    options.shards = int64_t(best_micro_batches(trials, made.decisions)) * options.dp;
    plan = plan_pipeline(options, facts);
  }
  made.pipeline =
      std::make_unique<Pipeline>(options, data, grid, timeline, *made.stage, std::move(plan));
  return made;
}

}  // namespace tutti::train
