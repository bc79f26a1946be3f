// The computation of a synchronous step: backward over this worker's shards, gradients added up in
// the canonical tree, buckets handed over as soon as they are final. Where a pipeline computes, its
// micro-batches are the shards.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "trainer/common/faults.h"
#include "trainer/device/vectors.h"
#include "trainer/parallel/fold.h"
#include "trainer/parallel/norms.h"
#include "trainer/parallel/worker_shards.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/sync/buckets.h"
#include "trainer/sync/shard_pass.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// `Real`: the element type of the gradients.
template <class Real>
class GradientAccumulation {
 public:
  explicit GradientAccumulation(const Worker& worker)
      : worker_(worker), shard_norm_(worker.replica.device(), 1) {
    const Options& o = worker.options;
    buckets_ = buckets_of(worker.replica.layout(), o);
    if (!worker.pipeline)
      own_ = worker_shards(o.shards, worker.comm.size(), worker.comm.rank(), o.canonical());
    bucket_of_.resize(worker.replica.layout().size());
    for (size_t b = 0; b < buckets_.size(); ++b) {
      for (size_t i = buckets_[b].first; i < buckets_[b].last; ++i) bucket_of_[i] = b;
      if (!worker.pipeline) folds_.emplace_back(size_t(own_.size()), worker.replica.device());
    }
  }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::span<Real> gradient(size_t bucket) {
    return slice(worker_.replica.gradients<Real>(), range_of(buckets_[bucket]));
  }

  struct Result {
    double loss = 0;        // sum over the samples
    double shard_norm = 0;  // sum over the shards of the squared length of the mean gradient
    double exposed = 0;     // seconds in which this rank waited for other stages
  };
  // While backward runs, `final(i)` is called for buckets 0, 1, 2 ..., in this order on all ranks,
  // and `look` whenever a gradient is ready. Both may throw.
  Result run(int64_t step, const std::function<void(size_t bucket)>& final,
             const std::function<void()>& look) {
    if (worker_.pipeline) {
      const Pipeline::Result whole = worker_.pipeline->run(step);
      for (size_t b = 0; b < buckets_.size(); ++b) final(b);
      return {whole.loss, whole.shard_norm, worker_.pipeline->exposed()};
    }
    const Options& o = worker_.options;
    const Device& device = worker_.replica.device();
    const double terms = double(o.batch) * double(worker_.data.terms());
    Result result;
    Vectors<double>::clear(device, shard_norm_.span());
    for (int64_t shard = own_.begin; shard < own_.end; ++shard) {
      // Gradients are those of the mean over the whole step, however unequal the shards are.
      const auto samples = double(shard_samples(o, shard));
      const double whole = samples > 0 ? double(o.batch) / samples : 0;
      std::vector<size_t> missing(buckets_.size());
      for (size_t b = 0; b < buckets_.size(); ++b)
        missing[b] = buckets_[b].last - buckets_[b].first;
      size_t next = 0;
      // Before and not after it: buckets leave while backward runs.
      straggle(o, step, worker_.comm.rank(), took_);
      const double from = now();
      fault_point("forward");
      const auto ready = [&](size_t parameter) {
        --missing[bucket_of_[parameter]];
        for (; next < buckets_.size() && missing[next] == 0; ++next) {
          const std::span<Real> part = gradient(next);
          for_counted(worker_.replica.layout(), range_of(buckets_[next]), part,
                      [&](std::span<Real> own) {
                        Vectors<Real>::add_squares(device, own, whole, shard_norm_.span());
                      });
          folds_[next].add(part);
          if (next == 0) fault_point("backward");
          if (shard + 1 == own_.end) final(next);
        }
        look();
      };
      result.loss += shard_pass(o, worker_.data, worker_.replica, step, shard, 1 / terms, ready);
      took_ = now() - from;
      worker_.timeline.add("compute", "forward and backward", from, from + took_);
    }
    result.shard_norm = OnHost<double>(device, shard_norm_.span()).values()[0];
    return result;
  }

 private:
  Worker worker_;
  Span own_;  // this worker's shards, where no pipeline computes
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;       // of a parameter
  std::vector<BasicFold<Real>> folds_;  // of a bucket
  Buffer<double> shard_norm_;
  double took_ = 0;  // seconds of the last shard's pass
};

// What --clip does. `squared`: the squared length of the whole gradient, of which `part` is a part.
template <class Real>
void clip_gradient(const Device& device, std::span<Real> part, double squared, double most,
                   StepFigures& figures) {
  figures.gradient = std::sqrt(squared);
  figures.overflow = !std::isfinite(squared);
  if (figures.overflow || figures.gradient <= most) return;
  Vectors<Real>::scale(device, part, Real(most / figures.gradient));
}

}  // namespace tutti::train
