#include "trainer/parallel/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace tutti::train {
namespace {

template <class Real>
constexpr Real beta1 = Real(0.9);
template <class Real>
constexpr Real beta2 = Real(0.95);
template <class Real>
constexpr Real epsilon = Real(1e-8);

size_t total(const std::vector<Range>& ranges) {
  size_t sum = 0;
  for (const Range& range : ranges) sum += range.size();
  return sum;
}

}  // namespace

template <class Real>
BasicOptimizer<Real>::BasicOptimizer(OptimizerSettings settings, Layout layout,
                                     std::vector<Range> owned, const Device& device)
    : settings_(std::move(settings)),
      layout_(std::move(layout)),
      owned_(std::move(owned)),
      device_(device) {
  const size_t size = total(owned_);
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

template <class Real>
void BasicOptimizer<Real>::begin(int64_t step, double factor, int64_t skipped) {
  rate_ = Real(rate_at(settings_, step) * factor);
  updates_ = step - skipped;
  std::fill(norms_.begin(), norms_.end(), tutti_binned_float64{});
}

template <class Real>
size_t BasicOptimizer<Real>::place(Range range) const {
  size_t before = 0;
  for (const Range& own : owned_) {
    if (range.begin >= own.begin && range.end <= own.end) return before + range.begin - own.begin;
    before += own.size();
  }
  throw std::logic_error("the optimizer does not own this range");
}

template <class Real>
void BasicOptimizer<Real>::update(Range range, std::span<Real> parameters,
                                  std::span<const Real> gradients) {
  const size_t n = range.size(), at = place(range);
  // On the host in blocks that stay in its caches from one operation to the next.
  const size_t block = device_.is_host() ? 2048 : n;
  for (size_t begin = 0; begin < n; begin += block) {
    const Range part{begin, std::min(begin + block, n)};
    update_block(at + begin, slice(parameters, part), slice(gradients, part));
  }
  if (has_norms()) add_norms(range, parameters, direction_.span().subspan(at, n));
}

template <class Real>
void BasicOptimizer<Real>::update_block(size_t at, std::span<Real> parameters,
                                        std::span<const Real> gradients) {
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
      part(state_["mean"]),  part(state_["square"]), beta1<Real>,  beta2<Real>,
      unbiased(beta1<Real>), unbiased(beta2<Real>),  epsilon<Real>};
  const auto decay = Real(settings_.weight_decay);
  if (has_norms())
    return Vectors<Real>::adam(device_, moments, gradients, parameters, decay, part(direction_));
  if (step_room_.size() < n) step_room_ = Buffer<Real>(device_, n);
  const std::span<Real> step = step_room_.span().first(n);
  Vectors<Real>::adam(device_, moments, gradients, parameters, decay, step);
  Vectors<Real>::descend(device_, parameters, step, rate_);
}

template <class Real>
void BasicOptimizer<Real>::add_norms(Range range, std::span<const Real> parameters,
                                     std::span<const Real> update) {
  std::vector<double> squares;
  for (size_t layer = 0; layer < layout_.size(); ++layer) {
    const size_t begin = std::max(range.begin, layout_[layer].offset);
    const size_t end = std::min(range.end, layout_[layer].offset + layout_[layer].count);
    if (begin >= end) continue;
    for (const auto& [norm, values] : {std::pair{2 * layer, parameters}, {2 * layer + 1, update}}) {
      Vectors<Real>::squares_of(device_, values.subspan(begin - range.begin, end - begin), squares);
      deposit_all<tutti_binned_float64, double>(norms_[norm], squares);
    }
  }
}

template <class Real>
void BasicOptimizer<Real>::finish(Range range, std::span<Real> parameters) {
  if (!has_norms()) return;
  std::vector<double> squares(norms_.size());
  tutti::finish<tutti_binned_float64, double>(norms_, squares);
  const std::span<const Real> u =
      std::as_const(direction_).span().subspan(place(range), range.size());
  for (size_t layer = 0; layer < layout_.size(); ++layer) {
    const size_t begin = std::max(range.begin, layout_[layer].offset);
    const size_t end = std::min(range.end, layout_[layer].offset + layout_[layer].count);
    const double weights = std::sqrt(squares[2 * layer]);
    const double step = std::sqrt(squares[2 * layer + 1]);
    const double trust = weights > 0 && step > 0 ? std::min(weights / step, 10.0) : 1.0;
    if (begin < end)
      Vectors<Real>::descend(device_, parameters.subspan(begin - range.begin, end - begin),
                             u.subspan(begin - range.begin, end - begin), rate_ * Real(trust));
  }
}

double rate_at(const OptimizerSettings& s, int64_t step) {
  if (step < s.warmup) return s.rate * (double(step + 1) / double(s.warmup + 1));
  if (s.decay == "constant") return s.rate;
  const double gone = std::min(1.0, double(step - s.warmup) / double(s.steps - s.warmup));
  const double left = s.decay == "linear" ? 1 - gone : (1 + std::cos(std::numbers::pi * gone)) / 2;
  return s.least_rate + (s.rate - s.least_rate) * left;
}

size_t moments_of(const Options& o) {
  if (o.optimizer != "sgd") return 2;
  return o.momentum > 0 ? 1 : 0;
}

OptimizerSettings optimizer_settings(const Options& o) {
  return {o.optimizer,    o.rate,  o.warmup,     o.momentum,
          o.weight_decay, o.decay, o.least_rate, o.steps};
}

template class BasicOptimizer<float>;
template class BasicOptimizer<double>;

}  // namespace tutti::train
