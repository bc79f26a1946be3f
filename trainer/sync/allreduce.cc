// Synchronous data parallelism: every worker computes the gradient of its shards, buckets of
// gradients are summed over the workers while the next ones are still being computed, and every
// worker makes the same update. Replicas stay equal, bit for bit, because the sums are equal on all
// of them.
#include <fmt/format.h>

#include "trainer/common/faults.h"
#include "trainer/parallel/norms.h"
#include "trainer/sync/calls.h"
#include "trainer/sync/clip.h"
#include "trainer/sync/list.h"
#include "trainer/sync/meter.h"
#include "trainer/sync/passes.h"
#include "trainer/sync/wire.h"
#include "trainer/sync/zero.h"

namespace tutti::train {
namespace {

// `Real`: the element type of the parameters.
template <class Real>
class DataParallel : public Strategy {
 public:
  explicit DataParallel(const Worker& worker)
      : worker_(worker),
        passes_(worker),
        wire_(make_wire<Real>(worker.options, passes_.buckets())),
        optimizer_(optimizer_settings(worker.options), worker.replica.layout(),
                   {{0, worker.replica.size()}}, worker.replica.device()),
        calls_(worker.comm, worker.options.overlap && wire_->beside(), worker.replica.device()),
        meter_(calls_.comm()) {}

  StepFigures step(int64_t step) override {
    const auto& buckets = passes_.buckets();
    const auto start = [this](size_t b) {
      calls_.start([this, b](const Way& way) {
        fault_point("allreduce");
        return wire_->begin(way, b, passes_.gradient(passes_.buckets()[b]));
      });
    };
    const typename Passes<Real>::Result local = passes_.run(step, start, [this] { calls_.look(); });
    StepFigures figures;
    optimizer_.begin(step);
    if (worker_.options.clip) {
      for (size_t b = 0; b < buckets.size(); ++b) take(b, figures);
      clip(figures);
    }
    for (size_t b = 0; b < buckets.size(); ++b) {
      if (!worker_.options.clip) take(b, figures);
      if (b == 0) fault_point("update");
      const double updates = now();
      if (!figures.overflow)
        optimizer_.update(range(b), passes_.parameters(buckets[b]), passes_.gradient(buckets[b]));
      worker_.timeline.add("compute", "update of bucket " + std::to_string(b), updates, now());
    }
    if (optimizer_.has_norms() && worker_.grid.tensor.size() > 1)
      sum_layer_norms(optimizer_, worker_.replica.layout(), worker_.grid.tensor);
    if (!figures.overflow)
      for (size_t b = 0; b < buckets.size(); ++b)
        optimizer_.finish(range(b), passes_.parameters(buckets[b]));
    record(figures);
    double sums[] = {local.loss, local.shard_norm};
    const double from = now();
    worker_.comm.allreduce<double>(sums);
    passes_.sum_model(sums[0], sums[1], figures.step_norm);
    figures.exposed += now() - from + passes_.exposed();
    figures.loss = sums[0] / passes_.terms();
    figures.shard_norm = sums[1] / double(worker_.options.shards);
    return figures;
  }

  std::vector<StateVector> state() override {
    std::vector<StateVector> all = wire_->state();
    all.push_back(parameter_state(worker_.replica.bytes(), worker_.replica.size(),
                                  StateVector::Kept::alike, worker_.replica.device()));
    add_state(optimizer_, StateVector::Kept::alike, all);
    return all;
  }

  Volume formula() const override {
    Volume sum;
    for (const Bucket& bucket : passes_.buckets())
      sum += wire_->formula(calls_.comm(), bucket.count);
    return sum;
  }
  std::string about() const override { return wire_->about(); }

 private:
  Range range(size_t b) const {
    const Bucket& bucket = passes_.buckets()[b];
    return {bucket.offset, bucket.offset + bucket.count};
  }
  // Waits until the bucket's gradient is the sum.
  void take(size_t b, StepFigures& figures) {
    const double from = now();
    calls_.wait(b);
    figures.exposed += now() - from;
    const std::span<Real> gradient = passes_.gradient(passes_.buckets()[b]);
    const Device& device = worker_.replica.device();
    wire_->finish(device, b, gradient);
    for_counted(worker_.replica.layout(), range(b), [&](Range own) {
      figures.step_norm = with_squares<Real>(
          device, gradient.subspan(own.begin - range(b).begin, own.size()), figures.step_norm);
    });
  }
  void clip(StepFigures& figures) {
    GradientNorm norm(worker_.replica.device());
    const std::span<Real> all = worker_.replica.gradients<Real>();
    if (worker_.grid.counts) norm.add<Real>(worker_.replica.layout(), {0, all.size()}, all);
    shorten<Real>(worker_.replica.device(), all, norm.squared(worker_.grid.model),
                  *worker_.options.clip, figures);
  }
  // Records the times of the buckets' calls.
  void record(StepFigures& figures) {
    const auto& buckets = passes_.buckets();
    for (size_t b = 0; b < buckets.size(); ++b) {
      const Calls::Times times = calls_.times(b);
      figures.communication += times.end - times.begin;
      worker_.timeline.add("communication", "bucket " + std::to_string(b), times.begin, times.end,
                           sizeof(Real) * double(buckets[b].count));
    }
    calls_.clear();
    figures.volume = meter_.sent();
  }

  Worker worker_;
  Passes<Real> passes_;
  std::unique_ptr<Wire<Real>> wire_;
  BasicOptimizer<Real> optimizer_;
  Calls calls_;  // after what its calls use
  Meter meter_;
};

std::string plan(const PlannedStep& planned) {
  const Options& o = planned.options;
  const std::vector<Parameter>& layout = planned.most;
  const int p = o.dp;
  const auto buckets = buckets_of(layout, o);
  const bool as_ring = o.algorithm == "auto" && !o.zero && o.topk == 0;
  const std::string algorithm = as_ring ? "ring" : o.algorithm;
  std::string text = fmt::format(
      "a step     backward computes gradients from the last layer to the first; when those of a "
      "bucket are there they are {}, {}\n",
      o.zero ? "summed, a part on each worker" : "summed over the workers",
      o.topk > 0  ? "after backward"
      : o.overlap ? "while backward goes on"
                  : "after backward");
  text += fmt::format(
      "bucket     leaves after                             bytes  sent by the busiest worker{}\n",
      as_ring ? " (as ring; the library chooses)" : "");
  double sent = 0;
  for (size_t b = 0; b < buckets.size(); ++b) {
    const auto size = double(o.element_bytes() * buckets[b].count);
    Volume volume = allreduce_volume(algorithm, p, o.wire == "bf16" ? size / 2 : size);
    if (o.zero) (volume = scatter_volume(p, size)) += scatter_volume(p, size);
    if (o.topk > 0) volume = topk_volume(p, largest_of(o.topk, buckets[b].count));
    sent += volume.bytes;
    text += fmt::format("{:>6}     {:<32} {:>12}  {:>12} in {:.0f} messages\n", b,
                        layout[buckets[b].last - 1].name, megabytes(size), megabytes(volume.bytes),
                        volume.messages);
  }
  text += fmt::format("in all     {}{} a worker and step{}\n", o.topk > 0 ? "at most about " : "",
                      megabytes(sent), o.zero ? ", half of it gradients, half parameters" : "");
  return text;
}

std::unique_ptr<Strategy> make(const Worker& worker, const communicator&) {
  if (worker.options.zero) return make_zero(worker);
  if (worker.options.dtype == "float64") return std::make_unique<DataParallel<double>>(worker);
  return std::make_unique<DataParallel<float>>(worker);
}

}  // namespace

SyncWay ways::allreduce() {
  return {.name = "allreduce",
          .sums_gradients = true,
          .allreduces = true,
          .equal_steps = true,
          .plan = plan,
          .make = make};
}

}  // namespace tutti::train
