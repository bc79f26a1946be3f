// The computation of a synchronous step: backward over this worker's shards, gradients added up in
// the canonical tree, buckets handed over as soon as they are final. Where a pipeline computes, its
// micro-batches are the shards.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "trainer/device/vectors.h"
#include "trainer/parallel/fold.h"
#include "trainer/sync/buckets.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// `Real`: the element type of the gradients.
template <class Real>
class GradientAccumulation {
 public:
  explicit GradientAccumulation(const Worker& worker);
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
             const std::function<void()>& look);

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
