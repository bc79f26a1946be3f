// SGD with momentum, AdamW and LAMB on flat vectors. Not LibTorch's: these give the same bits
// wherever the parameters are cut into parts, which sharded optimizer state and sharded servers
// need; and LibTorch has no LAMB.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/device/vectors.h"
#include "trainer/parallel/split.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

struct OptimizerSettings {
  std::string kind;  // sgd, adamw, lamb
  double rate = 0;
  int64_t warmup = 0;
  double momentum = 0;
  double weight_decay = 0;
  std::string decay = "constant";  // of the rate, after the warm-up: or cosine, linear
  double least_rate = 0;           // which the decay ends at
  int64_t steps = 0;               // of the run
};
OptimizerSettings optimizer_settings(const Options& options);
// The rate of step `step`, counted from 0. It rises linearly over the warm-up, and then decays from
// the full rate, which the first step has, to the least one, which would be the one of the step
// after the last.
double rate_at(const OptimizerSettings& settings, int64_t step);
// The number of vectors that the optimizer keeps, each as long as the parameters.
size_t moments_of(const Options& options);

// `Real`: the element type of the vectors.
template <class Real>
class BasicOptimizer {
 public:
  // For the parameters in `owned`, disjoint and ascending. All vectors are on the device.
  BasicOptimizer(OptimizerSettings settings, Layout layout, std::vector<Range> owned,
                 const Device& device = {});

  // Begins step `step`, counted from 0, before which `skipped` were left out; `factor` multiplies
  // its rate.
  void begin(int64_t step, double factor = 1, int64_t skipped = 0);
  // The vectors are those of `range`, which lies within one owned range. With sgd and adamw this is
  // the whole update.
  void update(Range range, std::span<Real> parameters, std::span<const Real> gradients);
  // Only lamb needs it: after update() of whole layers, or after update() of this rank's parts of
  // all layers and a sum of norms() over the ranks.
  void finish(Range range, std::span<Real> parameters);
  // A whole step: of all layers of `range`, whose norms are of no other rank.
  void step(int64_t step, Range range, std::span<Real> parameters, std::span<const Real> gradients,
            double factor = 1, int64_t skipped = 0) {
    begin(step, factor, skipped);
    update(range, parameters, gradients);
    finish(range, parameters);
  }
  bool has_norms() const { return settings_.kind == "lamb"; }
  // Two accumulators for each layer: their sums do not depend on how layers are divided among
  // ranks.
  std::span<tutti_binned_float64> norms() { return norms_; }

  // The state that is kept from step to step: vectors over the owned ranges, one range after the
  // other.
  std::map<std::string, Buffer<Real>>& state() { return state_; }
  const Device& device() const { return device_; }
  const std::vector<Range>& owned() const { return owned_; }

 private:
  size_t place(Range range) const;  // of the range's begin, in the state
  void update_block(size_t at, std::span<Real> parameters, std::span<const Real> gradients);
  void add_norms(Range range, std::span<const Real> parameters, std::span<const Real> update);

  OptimizerSettings settings_;
  Layout layout_;
  std::vector<Range> owned_;
  Device device_;
  std::map<std::string, Buffer<Real>> state_;
  Buffer<Real> direction_;  // lamb: the update before its length is set
  Buffer<Real> step_room_;  // adamw: the update before the rate
  std::vector<tutti_binned_float64> norms_;
  Real rate_ = 0;
  int64_t updates_ = 0;  // made before this step
};
using Optimizer = BasicOptimizer<float>;

}  // namespace tutti::train
