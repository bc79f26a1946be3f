// The computation that all ways to agree share: forward and backward over one shard of a step.
#pragma once

#include "trainer/common/faults.h"
#include "trainer/data/data.h"
#include "trainer/models/replica.h"
#include "trainer/sync/straggler.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// Sets the gradients to those of `scale` times the sum of the shard's losses. Returns that sum, not
// scaled.
inline double shard_pass(const Options& o, const Data& data, Replica& replica, int64_t step,
                         int64_t shard, double scale, const Replica::Ready& ready) {
  return replica.backward(shard_batch(o, data, step, shard), scale, shard_seed(o, step, shard),
                          ready);
}

// For a worker that has one shard and sums no gradients with others. Returns the mean loss.
inline double own_pass(const Worker& worker, int64_t step, double scale) {
  const int rank = worker.comm.rank();
  const double from = now();
  fault_point("forward");
  const double sum =
      shard_pass(worker.options, worker.data, worker.replica, step, rank, scale, [](size_t) {});
  straggle(worker.options, step, rank, now() - from);
  worker.timeline.add("compute", "forward and backward", from, now());
  return sum / (double(shard_samples(worker.options, rank)) * double(worker.data.terms()));
}
// The same with the gradient of the mean loss.
inline double own_pass(const Worker& worker, int64_t step) {
  const int64_t samples = shard_samples(worker.options, worker.comm.rank());
  return own_pass(worker, step, 1 / (double(samples) * double(worker.data.terms())));
}

}  // namespace tutti::train
