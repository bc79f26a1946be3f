// The computation of a synchronous step: backward over this worker's shards, gradients added up in
// the canonical tree, buckets handed over as soon as they are final. Where a pipeline computes, its
// micro-batches are the shards.
#pragma once

#include <functional>
#include <vector>

#include "trainer/parallel/fold.h"
#include "trainer/sync/buckets.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// `Real`: the element type of the gradients.
template <class Real>
class Passes {
 public:
  explicit Passes(const Worker& worker);
  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::span<Real> gradient(const Bucket& bucket) {
    return worker_.replica.gradients<Real>().subspan(bucket.offset, bucket.count);
  }
  std::span<Real> parameters(const Bucket& bucket) {
    return worker_.replica.parameters<Real>().subspan(bucket.offset, bucket.count);
  }

  struct Result {
    double loss = 0;        // sum over the samples
    double shard_norm = 0;  // sum over the shards of the squared length of the mean gradient
  };
  // While backward runs, `final(i)` is called for buckets 0, 1, 2 ..., in this order on all ranks,
  // and `look` whenever a gradient is ready. Both may throw.
  Result run(int64_t step, const std::function<void(size_t bucket)>& final,
             const std::function<void()>& look);

  // Replaces figures of which each rank of the model has a part by their sums over the model. The
  // loss, which all ranks that divide the last layers have, is counted once.
  void sum_model(double& loss, double& shard_norm, double& step_norm) const;
  // Seconds of run() in which this rank waited for other stages.
  double exposed() const;
  // Terms of the loss in a step, over all workers.
  double terms() const { return double(worker_.options.batch) * double(worker_.data.terms()); }

 private:
  Worker worker_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;       // of a parameter
  std::vector<BasicFold<Real>> folds_;  // of a bucket
  Buffer<double> shard_norm_;
  double took_ = 0;  // seconds of the last shard's pass
};

}  // namespace tutti::train
