// The computation that all ways to agree share: forward and backward over one shard of a step.
#pragma once

#include <cmath>
#include <optional>

#include "trainer/common/faults.h"
#include "trainer/data/data.h"
#include "trainer/device/vectors.h"
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

// Whether a gradient of scaled losses must not be used.
inline bool overflows(Replica& replica) {
  return !std::isfinite(Vectors<float>::with_squares(replica.device(), replica.gradients(), 0));
}

// What --clip does. `squared`: the squared length of the whole gradient, of which `part` is a part.
template <class Real>
void clip_gradient(const Device& device, std::span<Real> part, double squared, double most,
                   StepFigures& figures) {
  figures.gradient = std::sqrt(squared);
  figures.overflow = !std::isfinite(squared);
  if (figures.overflow || figures.gradient <= most) return;
  Vectors<Real>::scale(device, part, Real(most / figures.gradient));
}

// For a worker that has one shard and sums no gradients with others. Returns the mean loss and,
// where losses are scaled by a factor of the worker's own, what became of that.
inline StepFigures own_pass(const Worker& worker, int64_t step, double scale,
                            const std::optional<LossScale>& loss_scale) {
  StepFigures figures;
  if (loss_scale) worker.replica.scale_losses(figures.loss_scale = loss_scale->scale);
  const int rank = worker.comm.rank();
  const double from = now();
  fault_point("forward");
  const double sum =
      shard_pass(worker.options, worker.data, worker.replica, step, rank, scale, [](size_t) {});
  straggle(worker.options, step, rank, now() - from);
  worker.timeline.add("compute", "forward and backward", from, now());
  figures.loss = sum / (double(shard_samples(worker.options, rank)) * double(worker.data.terms()));
  figures.overflow = loss_scale && overflows(worker.replica);
  return figures;
}
// The same with the gradient of the mean loss.
inline StepFigures own_pass(const Worker& worker, int64_t step,
                            const std::optional<LossScale>& loss_scale) {
  const int64_t samples = shard_samples(worker.options, worker.comm.rank());
  return own_pass(worker, step, 1 / (double(samples) * double(worker.data.terms())), loss_scale);
}

// The update of a worker that makes it by itself, with what own_pass() left.
inline void own_update(const StepFigures& figures, int64_t step, Optimizer& optimizer,
                       std::span<float> parameters, std::span<const float> gradients,
                       std::optional<LossScale>& loss_scale) {
  if (!figures.overflow)
    optimizer.step(step, optimizer.owned().front(), parameters, gradients, 1,
                   loss_scale ? loss_scale->skipped : 0);
  if (loss_scale) loss_scale->update(figures.overflow);
}

}  // namespace tutti::train
