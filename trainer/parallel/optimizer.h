// SGD with momentum, AdamW and LAMB on flat vectors. Not LibTorch's: these give the same bits
// wherever the parameters are cut into parts, which sharded optimizer state and sharded servers
// need; and LibTorch has no LAMB.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
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
inline OptimizerSettings optimizer_settings(const Options& o) {
  return {o.optimizer,    o.rate,  o.warmup,     o.momentum,
          o.weight_decay, o.decay, o.least_rate, o.steps};
}
// The rate of step `step`, counted from 0. It rises linearly over the warm-up, and then decays from
// the full rate, which the first step has, to the least one, which would be the one of the step
// after the last.
inline double rate_at(const OptimizerSettings& s, int64_t step) {
  if (step < s.warmup) return s.rate * (double(step + 1) / double(s.warmup + 1));
  if (s.decay == "constant") return s.rate;
  const double gone = std::min(1.0, double(step - s.warmup) / double(s.steps - s.warmup));
  const double left = s.decay == "linear" ? 1 - gone : (1 + std::cos(std::numbers::pi * gone)) / 2;
  return s.least_rate + (s.rate - s.least_rate) * left;
}
// The number of vectors that the optimizer keeps, each as long as the parameters.
inline size_t moments_of(const Options& o) {
  if (o.optimizer != "sgd") return 2;
  return o.momentum > 0 ? 1 : 0;
}

// `Real`: the element type of the vectors.
template <class Real>
class BasicOptimizer {
 public:
  // For the parameters in `owned`, disjoint and ascending. All vectors are on the device.
  BasicOptimizer(OptimizerSettings settings, Layout layout, std::vector<Range> owned,
                 const Device& device = {})
      : settings_(std::move(settings)),
        layout_(std::move(layout)),
        owned_(std::move(owned)),
        device_(device) {
    size_t size = 0;
    for (const Range& range : owned_) size += range.size();
    if (settings_.kind == "sgd") {
      if (settings_.momentum > 0) state_.emplace("momentum", Buffer<Real>(device, size));
    } else {
      state_.emplace("mean", Buffer<Real>(device, size));
      state_.emplace("square", Buffer<Real>(device, size));
    }
    if (has_norms()) {
      direction_ = Buffer<Real>(device, size);
      norms_.resize(2 * layout_.size());
    }
  }

  // Begins step `step`, counted from 0, before which `skipped` were left out; `factor` multiplies
  // its rate.
  void begin(int64_t step, double factor = 1, int64_t skipped = 0) {
    rate_ = Real(rate_at(settings_, step) * factor);
    updates_ = step - skipped;
    std::fill(norms_.begin(), norms_.end(), tutti_binned_float64{});
  }
  // The vectors are those of `range`, which lies within one owned range. With sgd and adamw this is
  // the whole update.
  void update(Range range, std::span<Real> parameters, std::span<const Real> gradients) {
    const size_t n = range.size(), at = place(range);
    // On the host in blocks that stay in its caches from one operation to the next.
    const size_t block = device_.is_host() ? 2048 : n;
    for (size_t begin = 0; begin < n; begin += block) {
      const Range part{begin, std::min(begin + block, n)};
      update_block(at + begin, slice(parameters, part), slice(gradients, part));
    }
    if (has_norms()) add_norms(range, parameters, direction_.span().subspan(at, n));
  }
  // Only lamb needs it: after update() of whole layers, or after update() of this rank's parts of
  // all layers and a sum of norms() over the ranks.
  void finish(Range range, std::span<Real> parameters) {
    if (!has_norms()) return;
    std::vector<double> squares(norms_.size());
    tutti::finish<tutti_binned_float64, double>(norms_, squares);
    const std::span<const Real> u =
        std::as_const(direction_).span().subspan(place(range), range.size());
    for (size_t layer = 0; layer < layout_.size(); ++layer) {
      const double weights = std::sqrt(squares[2 * layer]);
      const double step = std::sqrt(squares[2 * layer + 1]);
      const double trust = weights > 0 && step > 0 ? std::min(weights / step, 10.0) : 1.0;
      const Range part = part_in(range, layer);
      Vectors<Real>::descend(device_, slice(parameters, part), slice(u, part), rate_ * Real(trust));
    }
  }
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
  // Where the range begins in the state.
  size_t place(Range range) const {
    size_t before = 0;
    for (const Range& own : owned_) {
      if (range.begin >= own.begin && range.end <= own.end) return before + range.begin - own.begin;
      before += own.size();
    }
    throw std::logic_error("the optimizer does not own this range");
  }
  // The part of the layer that is in the range, counted from the range's begin.
  Range part_in(Range range, size_t layer) const {
    const Range part = overlap(range, layout_[layer].range());
    return {part.begin - range.begin, part.end - range.begin};
  }
  void update_block(size_t at, std::span<Real> parameters, std::span<const Real> gradients) {
    const size_t n = parameters.size();
    const auto part = [at, n](Buffer<Real>& buffer) { return buffer.span().subspan(at, n); };
    if (settings_.kind == "sgd") {
      if (settings_.momentum == 0)
        return Vectors<Real>::descend(device_, parameters, gradients, rate_);
      const std::span<Real> m = part(state_["momentum"]);
      Vectors<Real>::accelerate(device_, m, gradients, Real(settings_.momentum));
      return Vectors<Real>::descend(device_, parameters, m, rate_);
    }
    const auto unbiased = [this](Real beta) {
      return Real(1 / (1 - std::pow(double(beta), double(updates_ + 1))));
    };
    const typename Vectors<Real>::Moments moments{
        part(state_["mean"]), part(state_["square"]), beta1,  beta2,
        unbiased(beta1),      unbiased(beta2),        epsilon};
    const auto decay = Real(settings_.weight_decay);
    if (has_norms())
      return Vectors<Real>::adam(device_, moments, gradients, parameters, decay, part(direction_));
    if (step_room_.size() < n) step_room_ = Buffer<Real>(device_, n);
    const std::span<Real> step = step_room_.span().first(n);
    Vectors<Real>::adam(device_, moments, gradients, parameters, decay, step);
    Vectors<Real>::descend(device_, parameters, step, rate_);
  }
  void add_norms(Range range, std::span<const Real> parameters, std::span<const Real> update) {
    std::vector<double> squares;
    for (size_t layer = 0; layer < layout_.size(); ++layer) {
      const Range part = part_in(range, layer);
      if (part.size() == 0) continue;
      for (const auto& [norm, values] :
           {std::pair{2 * layer, parameters}, {2 * layer + 1, update}}) {
        Vectors<Real>::squares_of(device_, slice(values, part), squares);
        deposit_all<tutti_binned_float64, double>(norms_[norm], squares);
      }
    }
  }

  static constexpr Real beta1 = Real(0.9), beta2 = Real(0.95), epsilon = Real(1e-8);

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
