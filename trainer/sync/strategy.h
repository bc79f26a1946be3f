// How workers agree on parameters: one implementation for each way. The step loop (step_loop.cc)
// knows only this interface.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/options.h"
#include "trainer/common/timeline.h"
#include "trainer/data/data.h"
#include "trainer/models/replica.h"
#include "trainer/parallel/loss_scale.h"
#include "trainer/parallel/mesh.h"
#include "trainer/parallel/optimizer.h"
#include "trainer/sync/volume.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

class Pipeline;

// What a worker works with. All of it outlives the strategy.
struct Worker {
  const Options& options;
  const Data& data;
  Replica& replica;
  const Grid& grid;          // all workers
  const communicator& comm;  // of those that hold the same part of the model: grid.data
  Timeline& timeline;
  Pipeline* pipeline = nullptr;  // computes, if layers are divided into stages
};

// Figures of a step, of this rank unless said otherwise.
struct StepFigures {
  double loss = 0;     // mean over the terms of the step; over all workers if they are synchronous
  double exposed = 0;  // seconds in which the worker waited for communication
  double communication = 0;  // seconds in which communication was in progress
  int64_t next = -1;         // the step to do next, where it is not the following one
  // What this rank has sent: to agree, for layers that ranks divide, and from stage to stage.
  Traffic sent, divided, staged;
  // Squared lengths of the mean gradient of a shard (their mean) and of the whole step; 0: not
  // known.
  double shard_norm = 0;
  double step_norm = 0;
  double gradient = -1;   // length of the whole gradient; negative: not asked for
  bool overflow = false;  // the gradient was not finite: there was no update
  double loss_scale = 0;  // of the step's backward; 0: losses are not scaled
};

class Strategy {
 public:
  explicit Strategy(const Worker& worker)
      : worker_(worker), loss_scale_(LossScale::of(worker.options)) {}
  virtual ~Strategy() = default;
  virtual StepFigures step(int64_t step) = 0;
  // --elastic. step() failed here in the call that decides the step, which ended well elsewhere:
  // makes the update of that step, without communication, and returns its figures. `others`: those
  // of a worker that has made it; where only servers have, whether the gradient overflowed alone.
  virtual StepFigures catch_up(const StepFigures& others) { return others; }
  // Whether all workers have ended the last step together, so that they can decide together.
  virtual bool together() const { return true; }
  // Called after the last step; then all replicas hold the result. Returns what was sent of the
  // steps' messages and no step has counted.
  virtual Traffic finish() { return {}; }
  // Called before a checkpoint; `next` is the first step after it. Until that step no other rank or
  // thread changes this rank's state.
  virtual void pause(int64_t next) { (void)next; }
  virtual std::vector<StateVector> state() { return {}; }
  // What else a checkpoint has of the state: null where losses are not scaled.
  LossScale* loss_scale() { return loss_scale_ ? &*loss_scale_ : nullptr; }
  // Called when state() has been filled from a checkpoint.
  virtual void resumed() {}
  // One line for each kind of message, for the plan and the summary.
  virtual std::string about() const = 0;

 protected:
  Worker worker_;
  std::optional<LossScale> loss_scale_;  // the worker's own, or that of all; none: not scaled
};

// SyncWay::make of a strategy whose constructor takes these, or only the worker.
template <class S>
std::unique_ptr<Strategy> made_strategy(const Worker& worker, const communicator& world) {
  if constexpr (std::is_constructible_v<S, const Worker&, const communicator&>)
    return std::make_unique<S>(worker, world);
  else
    return std::make_unique<S>(worker);
}

}  // namespace tutti::train
