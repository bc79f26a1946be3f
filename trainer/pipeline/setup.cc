// Decides where a model is cut into stages and into how many micro-batches a step is: measures
// both.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "trainer/common/faults.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/pipeline/stage.h"

namespace tutti::train {
namespace {

class MicroBatches {
 public:
  MicroBatches(const Options& options, const Data& data, const Grid& grid, Stage& stage,
               const ModelFacts& facts)
      : options_(options), data_(data), grid_(grid), stage_(stage), facts_(facts) {}

  // The number of micro-batches with the fastest step; `words` says how it was found.
  int best(std::string& words) {
    const int multiple = options_.schedule == "interleaved" ? options_.pp : 1;
    const int64_t samples = options_.batch / options_.dp;
    // Two sizes of micro-batches, to separate the fixed time from the time per sample.
    const auto few = int(std::clamp<int64_t>(options_.pp, multiple, samples));
    const auto many = int(std::min<int64_t>(4L * options_.pp, samples / multiple * multiple));
    StageTime time;
    if (few < many) {
      time = fit(double(samples) / few, slowest_stage(few), double(samples) / many,
                 slowest_stage(many));
    }
    std::vector<std::string> tried;
    double least = std::numeric_limits<double>::infinity();
    int best = few;
    for (const int m : promising_micro_batches(time, options_.pp, samples, multiple)) {
      const double seconds = step_time(m);
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

 private:
  static constexpr int repetitions = 3;

  // The least of some measurements by rank 0.
  double least(int micro_batches, const std::function<double(Pipeline&)>& measured) {
    trial_ = options_;
    trial_.shards = int64_t(micro_batches) * trial_.dp;
    Pipeline trial(trial_, data_, grid_, timeline_, stage_, plan_pipeline(trial_, facts_));
    double seconds = std::numeric_limits<double>::infinity();
    for (int i = 0; i < repetitions; ++i) seconds = std::min(seconds, measured(trial));
    grid_.all.broadcast<double>(std::span(&seconds, 1), 0);
    return seconds;
  }

  // Seconds of all passes of a micro-batch in the stage that takes longest.
  double slowest_stage(int micro_batches) {
    return least(micro_batches, [&](Pipeline& trial) {
      trial.run(0);
      double busy = 0;
      for (const Slot& slot : trial.slots()) busy += slot.end - slot.begin;
      grid_.pipeline.allreduce<double>(std::span(&busy, 1), TUTTI_MAX);
      return busy / micro_batches;
    });
  }

  // Seconds of a whole step, without the exchange of gradients between copies.
  double step_time(int micro_batches) {
    return least(micro_batches, [&](Pipeline& trial) {
      grid_.all.barrier();
      const double from = now();
      trial.run(0);
      grid_.all.barrier();
      return now() - from;
    });
  }

  const Options& options_;
  const Data& data_;
  const Grid& grid_;
  Stage& stage_;
  const ModelFacts& facts_;
  Options trial_;
  Timeline timeline_{false};
};

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
  std::vector<int> own;
  own.reserve(size_t(plan.shape.chunks));
  for (int c = 0; c < plan.shape.chunks; ++c)
    own.push_back(plan.shape.part(plan.shape.widths.stage(grid.pipeline.rank()), c));
  made.stage =
      std::make_shared<Stage>(replica, plan.parts, own, plan.ports,
                              Stage::Settings{options.recompute, options.schedule == "zb-h1"});
  if (options.micro_batches == "auto") {
    MicroBatches micro_batches(options, data, grid, *made.stage, facts);
    options.shards = int64_t(micro_batches.best(made.decisions)) * options.dp;
    plan = plan_pipeline(options, facts);
  }
  made.pipeline =
      std::make_unique<Pipeline>(options, data, grid, timeline, *made.stage, std::move(plan));
  return made;
}

}  // namespace tutti::train
