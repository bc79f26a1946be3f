#include "trainer/sync/gradient_accumulation.h"

#include "trainer/common/faults.h"
#include "trainer/parallel/norms.h"
#include "trainer/parallel/worker_shards.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/sync/shard_pass.h"

namespace tutti::train {

template <class Real>
GradientAccumulation<Real>::GradientAccumulation(const Worker& worker)
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

template <class Real>
auto GradientAccumulation<Real>::run(int64_t step, const std::function<void(size_t)>& final,
                                     const std::function<void()>& look) -> Result {
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
    for (size_t b = 0; b < buckets_.size(); ++b) missing[b] = buckets_[b].last - buckets_[b].first;
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

template class GradientAccumulation<float>;
template class GradientAccumulation<double>;

}  // namespace tutti::train
