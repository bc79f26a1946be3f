// Synchronous data parallelism: every worker computes the gradient of its shards, buckets of
// gradients are summed over the workers while the next ones are still being computed, and every
// worker makes the same update. Replicas stay equal, bit for bit, because the sums are equal on all
// of them. With --zero 1 a worker gets a part of each sum, updates that part of the parameters, and
// gets the other parts from the others.
#include <fmt/format.h>

#include <cmath>

#include "trainer/common/call.h"
#include "trainer/common/faults.h"
#include "trainer/parallel/fold.h"
#include "trainer/parallel/norms.h"
#include "trainer/parallel/worker_shards.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/sync/list.h"
#include "trainer/sync/shard_pass.h"
#include "trainer/sync/wire.h"

namespace tutti::train {
namespace {

// `Real`: the element type of the parameters.
template <class Real>
class DataParallel : public Strategy {
 public:
  DataParallel(const Worker& worker, const communicator& /*world*/)
      : Strategy(worker),
        device_(worker.replica.device()),
        buckets_(buckets_of(worker.replica.layout(), worker.options)),
        shard_norm_(device_, 1),
        wire_(make_wire<Real>(worker, buckets_)),
        optimizer_(optimizer_settings(worker.options), worker.replica.layout(), owned(), device_),
        calls_(worker.comm, worker.options.overlap && wire_->nonblocking(), device_),
        meter_(calls_.comm()),
        sums_(buckets_.size()) {
    const Options& o = worker.options;
    for (size_t b = 0; b < buckets_.size(); ++b)
      bucket_of_.insert(bucket_of_.end(), buckets_[b].last - buckets_[b].first, b);
    if (worker.pipeline) return;
    own_ = worker_shards(o.shards, worker.comm.size(), worker.comm.rank(), o.canonical());
    for (size_t b = 0; b < buckets_.size(); ++b) folds_.emplace_back(size_t(own_.size()), device_);
  }

  StepFigures step(int64_t step) override {
    const size_t count = buckets_.size();
    StepFigures figures;
    if (loss_scale_) worker_.replica.scale_losses(figures.loss_scale = loss_scale_->scale);
    if (worker_.pipeline)
      run_pipeline(step, figures);
    else
      run_shards(step, figures);
    optimizer_.begin(step, 1, loss_scale_ ? loss_scale_->skipped : 0);
    // The length of the whole gradient decides about the step; so do, with --elastic, the ranks:
    // who ends the sum of the figures knows that all have all sums, and parameters are as they were
    // until then.
    const bool clips = worker_.options.clip || loss_scale_, elastic = worker_.options.elastic;
    const bool whole_first = clips || elastic;
    if (whole_first)
      for (size_t b = 0; b < count; ++b) wait_sum(b, figures);
    if (clips) clip(figures);
    double from = now();
    if (elastic) {
      fault_point("decide");
      sum_figures(figures);
      figures.exposed += now() - from;
      fault_point("decided");
    }
    update(figures, whole_first);
    from = now();
    if (wire_->sharded()) calls_.wait(2 * count - 1);
    if (!elastic) sum_figures(figures);
    figures.exposed += now() - from;
    record(figures);
    return figures;
  }

  StepFigures catch_up(const StepFigures& others) override {
    StepFigures figures = others;
    update(figures, true);
    return figures;
  }

  std::vector<StateVector> state() override {
    using Placement = StateVector::Placement;
    std::vector<StateVector> all = wire_->state();
    all.push_back(parameter_state(worker_.replica.bytes(), worker_.replica.size(),
                                  Placement::replicated, device_));
    add_state(optimizer_, wire_->sharded() ? Placement::sharded : Placement::replicated, all);
    return all;
  }

  std::string about() const override { return wire_->about(); }

 private:
  // This worker's backward passes, which start the sums of buckets 0, 1, 2 ... in this order on all
  // ranks. `figures` get its loss, summed over samples, and the squared lengths of the mean
  // gradient, summed over its shards: where a pipeline computes, its micro-batches.
  void run_pipeline(int64_t step, StepFigures& figures) {
    const Pipeline::Result whole = worker_.pipeline->run(step);
    figures.loss = whole.loss;
    figures.shard_norm = whole.shard_norm;
    figures.exposed = worker_.pipeline->exposed();
    for (size_t b = 0; b < buckets_.size(); ++b) start_sum(b);
  }
  // Gradients are added up in the canonical tree; a bucket leaves as soon as it is final.
  void run_shards(int64_t step, StepFigures& figures) {
    const Options& o = worker_.options;
    const double terms = double(o.batch) * double(worker_.data.terms());
    Vectors<double>::clear(device_, shard_norm_.span());
    for (int64_t shard = own_.begin; shard < own_.end; ++shard) {
      // Gradients are those of the mean over the whole step, however unequal the shards are.
      const auto samples = double(shard_samples(o, shard));
      const double whole = samples > 0 ? double(o.batch) / samples : 0;
      std::vector<size_t> missing;
      for (const Bucket& bucket : buckets_) missing.push_back(bucket.last - bucket.first);
      size_t next = 0;
      // Before and not after it: buckets leave while backward runs.
      straggle(o, step, worker_.comm.rank(), took_);
      const double from = now();
      fault_point("forward");
      const auto ready = [&](size_t parameter) {
        --missing[bucket_of_[parameter]];
        for (; next < buckets_.size() && missing[next] == 0; ++next) {
          for_counted(worker_.replica.layout(), range_of(buckets_[next]), gradient(next),
                      [&](std::span<Real> own) {
                        Vectors<Real>::add_squares(device_, own, whole, shard_norm_.span());
                      });
          folds_[next].add(gradient(next));
          if (next == 0) fault_point("backward");
          if (shard + 1 == own_.end) start_sum(next);
        }
        calls_.look();
      };
      figures.loss += shard_pass(o, worker_.data, worker_.replica, step, shard, 1 / terms, ready);
      took_ = now() - from;
      worker_.timeline.add("compute", "forward and backward", from, from + took_);
    }
    figures.shard_norm = OnHost<double>(device_, shard_norm_.span()).values()[0];
  }
  std::span<Real> gradient(size_t b) {
    return slice(worker_.replica.gradients<Real>(), range_of(buckets_[b]));
  }
  // What this worker updates: of a bucket, and of the whole vector.
  Range part(size_t b) const { return wire_->part(buckets_[b]); }
  std::vector<Range> owned() const {
    if (!wire_->sharded()) return {{0, worker_.replica.size()}};
    std::vector<Range> ranges;
    ranges.reserve(buckets_.size());
    for (const Bucket& bucket : buckets_) ranges.push_back(wire_->part(bucket));
    return ranges;
  }
  std::span<Real> parameters(size_t b) {
    return slice(worker_.replica.parameters<Real>(), part(b));
  }

  // Of all buckets; where sums have not been waited for, each when its own is there.
  void update(StepFigures& figures, bool summed) {
    const size_t count = buckets_.size();
    if (loss_scale_) loss_scale_->update(figures.overflow);
    if (figures.overflow) wire_->leave_out();
    for (size_t b = 0; b < count; ++b) {
      if (!summed) wait_sum(b, figures);
      if (b == 0) fault_point("update");
      const double from = now();
      if (!figures.overflow) optimizer_.update(part(b), parameters(b), sums_[b]);
      worker_.timeline.add("compute", "update of bucket " + std::to_string(b), from, now());
    }
    if (optimizer_.has_norms()) sum_norms();
    for (size_t b = 0; b < count; ++b) {
      if (!figures.overflow) optimizer_.finish(part(b), parameters(b));
      if (wire_->sharded()) start_gather(b);
    }
  }
  void start_sum(size_t b) {
    calls_.start([this, b] {
      fault_point("allreduce");
      return wire_->begin(calls_, b, gradient(b));
    });
  }
  void start_gather(size_t b) {
    calls_.start([this, b] {
      return wire_->gather(calls_, b,
                           slice(worker_.replica.parameters<Real>(), range_of(buckets_[b])));
    });
  }
  void wait_sum(size_t b, StepFigures& figures) {
    const double from = now();
    calls_.wait(b);
    figures.exposed += now() - from;
    sums_[b] = wire_->sum(device_, b, gradient(b));
    for_counted(worker_.replica.layout(), part(b), sums_[b], [&](std::span<Real> own) {
      figures.step_norm = Vectors<Real>::with_squares(device_, own, figures.step_norm);
    });
  }
  void clip(StepFigures& figures) {
    GradientNorm norm(device_);
    if (wire_->sharded() || worker_.grid.counts)
      for (size_t b = 0; b < sums_.size(); ++b)
        norm.add<Real>(worker_.replica.layout(), part(b), sums_[b]);
    const double squared = norm.squared(wire_->sharded() ? worker_.grid.all : worker_.grid.model);
    for (const std::span<Real> sum : sums_)
      clip_gradient<Real>(device_, sum, squared, worker_.options.clip.value_or(INFINITY), figures);
  }
  // lamb's norms are of whole layers, of which ranks have parts.
  void sum_norms() {
    const auto norms = optimizer_.norms();
    if (wire_->sharded())
      check(tutti_allreduce(TUTTI_IN_PLACE, norms.data(), norms.size(), TUTTI_BINNED_FLOAT64,
                            TUTTI_SUM, calls_.comm().get()),
            calls_.comm());
    if (worker_.grid.tensor.size() > 1)
      sum_layer_norms(optimizer_, worker_.replica.layout(), worker_.grid.tensor);
  }
  // Over all workers. What several ranks have is counted on one of them: the loss on one of those
  // that divide the last layers, the whole step's gradient on one of its holders.
  void sum_figures(StepFigures& figures) const {
    const Grid& grid = worker_.grid;
    const bool own = wire_->sharded() || worker_.comm.rank() == 0;
    double sums[] = {figures.loss, figures.shard_norm, own ? figures.step_norm : 0};
    worker_.comm.allreduce<double>(sums);
    if (grid.model.size() > 1) {
      if (grid.tensor.rank() != 0) sums[0] = 0;
      if (!grid.counts) sums[0] = sums[1] = sums[2] = 0;
      grid.model.allreduce<double>(sums);
    }
    figures.loss = sums[0] / (double(worker_.options.batch) * double(worker_.data.terms()));
    figures.shard_norm = sums[1] / double(worker_.options.shards);
    figures.step_norm = sums[2];
    if (loss_scale_ && figures.overflow) figures.shard_norm = figures.step_norm = 0;
  }
  // What a step sends.
  Volume formula() const {
    Volume sum;
    for (const Bucket& bucket : buckets_) sum += wire_->formula(calls_.comm(), bucket.count);
    if (wire_->sharded() && optimizer_.has_norms())
      sum += formula_of({GroupCall::Kind::allreduce, 2 * worker_.replica.layout().size(),
                         TUTTI_BINNED_FLOAT64, TUTTI_SUM},
                        TUTTI_CALL_CONFIG_INIT, calls_.comm());
    return sum;
  }
  // Records the times of the buckets' calls.
  void record(StepFigures& figures) {
    const size_t count = buckets_.size();
    for (size_t i = 0; i < (wire_->sharded() ? 2 * count : count); ++i) {
      const Calls::Times times = calls_.times(i);
      const char* const what = !wire_->sharded() ? "" : i < count ? "reduce " : "gather ";
      figures.communication += times.end - times.begin;
      worker_.timeline.add("communication", fmt::format("{}bucket {}", what, i % count),
                           times.begin, times.end,
                           sizeof(Real) * double(buckets_[i % count].count));
    }
    calls_.clear();
    figures.sent = {meter_.sent(), formula()};
  }

  const Device& device_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;       // of a parameter
  Span own_;                            // this worker's shards, where no pipeline computes
  std::vector<BasicFold<Real>> folds_;  // of a bucket
  Buffer<double> shard_norm_;
  double took_ = 0;  // seconds of the last shard's pass
  std::unique_ptr<Wire<Real>> wire_;
  BasicOptimizer<Real> optimizer_;
  Calls calls_;  // after what its calls use
  Meter meter_;
  std::vector<std::span<Real>> sums_;  // of buckets, of the last step
};

std::string plan(const PlannedStep& planned) {
  const Options& o = planned.options;
  const std::vector<Parameter>& layout = planned.most;
  const int p = o.dp;
  const auto buckets = buckets_of(layout, o);
  const bool as_ring = o.algorithm == "auto" && o.topk == 0;
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

std::unique_ptr<Strategy> make(const Worker& worker, const communicator& world) {
  const bool doubles = worker.options.dtype == "float64";
  return (doubles ? made_strategy<DataParallel<double>>
                  : made_strategy<DataParallel<float>>)(worker, world);
}

}  // namespace

SyncWay ways::allreduce() {
  return {.name = "allreduce",
          .sums_gradients = true,
          .allreduces = true,
          .elastic = true,
          .equal_steps = true,
          .plan = plan,
          .make = make};
}

}  // namespace tutti::train
