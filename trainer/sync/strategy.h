// How workers agree on parameters: one implementation a way. The step loop (train.cc) knows no
// more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/checkpoint/state.h"
#include "trainer/common/options.h"
#include "trainer/common/timeline.h"
#include "trainer/data/data.h"
#include "trainer/models/replica.h"
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
  Pipeline* pipeline = nullptr;  // which computes, where layers are divided into stages
};

// What a step was like, on this rank unless said otherwise.
struct StepFigures {
  double loss =
      0;  // mean over the terms of the step's samples, of all workers where they are synchronous
  double exposed = 0;        // seconds in which the worker waited for communication
  double communication = 0;  // seconds in which there was communication
  int64_t next = -1;         // the step to do next, where it is not the following one
  Volume volume;             // what this rank has sent to agree with others, counted
  Volume divided;            // and for the layers that ranks divide among them
  // Squared lengths of the mean gradient of a shard (their mean) and of the whole step; 0: not
  // known.
  double shard_norm = 0;
  double step_norm = 0;
  double gradient = -1;   // length of the whole gradient; negative: not asked for
  bool overflow = false;  // it was not finite: nothing was learnt
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual StepFigures step(int64_t step) = 0;
  // After the last step: afterwards all replicas hold the result.
  virtual void finish() {}
  // Before a checkpoint with which `next` is the step to do next: until then nobody changes this
  // rank's state.
  virtual void pause(int64_t next) { (void)next; }
  virtual std::vector<StateVector> state() { return {}; }
  // state() has been filled from a checkpoint.
  virtual void resumed() {}
  // What the busiest worker sends in a step, on average, according to theory; NaN where that has no
  // formula.
  virtual Volume formula() const = 0;
  // One line a kind of message, for the plan and the summary.
  virtual std::string about() const = 0;
};

}  // namespace tutti::train
