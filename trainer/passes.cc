#include "trainer/passes.h"

#include <algorithm>
#include <iterator>

#include "trainer/faults.h"
#include "trainer/norms.h"
#include "trainer/pipeline.h"
#include "trainer/shard_pass.h"

namespace tutti::train {

template <class Real>
double squared_length(std::span<const Real> v) {
  // Four sums, so that the additions need not wait for each other.
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= v.size(); i += 4)
    for (size_t j = 0; j < 4; ++j) sums[j] += double(v[i + j]) * double(v[i + j]);
  for (; i < v.size(); ++i) sums[0] += double(v[i]) * double(v[i]);
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}

template double squared_length(std::span<const float> v);
template double squared_length(std::span<const double> v);

template <class Real>
Passes<Real>::Passes(const Worker& worker) : worker_(worker) {
  const Options& o = worker.options;
  buckets_ = buckets_of(worker.replica.layout(), o);
  bucket_of_.resize(worker.replica.layout().size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (size_t i = buckets_[b].first; i < buckets_[b].last; ++i) bucket_of_[i] = b;
    folds_.emplace_back(size_t(o.shards / o.dp));
  }
}

template <class Real>
typename Passes<Real>::Result Passes<Real>::run(int64_t step,
                                                const std::function<void(size_t)>& final,
                                                const std::function<void()>& look) {
  if (worker_.pipeline) {
    const Pipeline::Result whole = worker_.pipeline->run(step);
    for (size_t b = 0; b < buckets_.size(); ++b) final(b);
    return {whole.loss, whole.shard_norm};
  }
  const Options& o = worker_.options;
  const int64_t own = o.shards / o.dp;
  const int64_t first = own * worker_.comm.rank();
  Result result;
  for (int64_t shard = first; shard < first + own; ++shard) {
    // Gradients are those of the mean over the whole step, however unequal the shards are.
    const auto samples = double(shard_samples(o, shard));
    const double whole = samples > 0 ? double(o.batch) / samples : 0;
    std::vector<size_t> missing(buckets_.size());
    for (size_t b = 0; b < buckets_.size(); ++b) missing[b] = buckets_[b].last - buckets_[b].first;
    size_t next = 0;
    const double from = now();
    may_die("forward");
    const auto ready = [&](size_t parameter) {
      --missing[bucket_of_[parameter]];
      for (; next < buckets_.size() && missing[next] == 0; ++next) {
        const std::span<Real> part = gradient(buckets_[next]);
        const Range range{buckets_[next].offset, buckets_[next].offset + buckets_[next].count};
        for_counted(worker_.replica.layout(), range, [&](Range own) {
          result.shard_norm +=
              squared_length<Real>(part.subspan(own.begin - range.begin, own.size())) * whole *
              whole;
        });
        folds_[next].add(part);
        if (next == 0) may_die("backward");
        if (shard + 1 == first + own) final(next);
      }
      look();
    };
    result.loss += shard_pass(o, worker_.data, worker_.replica, step, shard, 1 / terms(), ready);
    worker_.timeline.add("compute", "forward and backward", from, now());
  }
  return result;
}

template <class Real>
void Passes<Real>::sum_model(double& loss, double& shard_norm, double& step_norm) const {
  const Grid& grid = worker_.grid;
  if (grid.model.size() == 1) return;
  double sums[] = {grid.tensor.rank() == 0 ? loss : 0, shard_norm, step_norm};
  if (!grid.counts) std::fill(std::begin(sums), std::end(sums), 0);
  grid.model.allreduce<double>(sums);
  loss = sums[0];
  shard_norm = sums[1];
  step_norm = sums[2];
}

template <class Real>
double Passes<Real>::exposed() const {
  return worker_.pipeline ? worker_.pipeline->exposed() : 0;
}

template class Passes<float>;
template class Passes<double>;

}  // namespace tutti::train
