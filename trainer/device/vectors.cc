#include "trainer/device/vectors.h"

#include <algorithm>
#include <cmath>

#include "trainer/device/tensors.h"
#include "tutti/tutti.hpp"

namespace tutti::train {
namespace {

using torch::Tensor;

// Four partial sums break the dependency chain of the additions.
template <class Real>
double squared_length(std::span<const Real> v) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= v.size(); i += 4)
    for (size_t j = 0; j < 4; ++j) sums[j] += double(v[i + j]) * double(v[i + j]);
  for (; i < v.size(); ++i) sums[0] += double(v[i]) * double(v[i]);
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}

// A tensor of one element, on the device.
template <class Real>
Tensor sum_of_squares(const Device& device, std::span<const Real> v) {
  return tensor_at(device, v).to(torch::kFloat64).square().sum();
}

Tensor halves_at(const Device& device, const uint16_t* words, size_t size) {
  return torch::from_blob(const_cast<uint16_t*>(words), {int64_t(size)},
                          torch::dtype(torch::kBFloat16).device(torch_device(device)));
}

}  // namespace

template <class Real>
void Vectors<Real>::copy(const Device& device, std::span<const Real> from, std::span<Real> to) {
  if (device.is_host())
    std::copy(from.begin(), from.end(), to.begin());
  else if (!from.empty())
    tensor_at(device, to).copy_(tensor_at(device, from));
}

template <class Real>
void Vectors<Real>::clear(const Device& device, std::span<Real> v) {
  if (device.is_host())
    std::fill(v.begin(), v.end(), Real(0));
  else if (!v.empty())
    tensor_at(device, v).zero_();
}

template <class Real>
void Vectors<Real>::add(const Device& device, std::span<const Real> x, std::span<Real> y) {
  if (device.is_host()) {
    const Real* operands[] = {x.data(), y.data()};
    reduce_local<Real>(operands, y, TUTTI_SUM, TUTTI_LEVEL_CANONICAL);
  } else if (!x.empty()) {
    tensor_at(device, y).add_(tensor_at(device, x));
  }
}

template <class Real>
void Vectors<Real>::scale(const Device& device, std::span<Real> v, Real factor) {
  if (device.is_host())
    for (Real& x : v) x *= factor;
  else if (!v.empty())
    tensor_at(device, v).mul_(double(factor));
}

template <class Real>
double Vectors<Real>::with_squares(const Device& device, std::span<const Real> v, double so_far) {
  if (device.is_host()) {
    for (const Real x : v) so_far += double(x) * double(x);
    return so_far;
  }
  return v.empty() ? so_far : so_far + sum_of_squares(device, v).template item<double>();
}

template <class Real>
void Vectors<Real>::add_squares(const Device& device, std::span<const Real> v, double factor,
                                std::span<double> sum) {
  if (device.is_host())
    sum[0] += squared_length(v) * factor * factor;
  else if (!v.empty())
    tensor_at(device, sum).add_(sum_of_squares(device, v), factor * factor);
}

template <class Real>
void Vectors<Real>::squares_of(const Device& device, std::span<const Real> v,
                               std::vector<double>& out) {
  out.clear();
  if (device.is_host())
    for (const Real x : v) out.push_back(double(x) * double(x));
  else
    out.push_back(with_squares(device, v, 0));
}

void to_bf16(const Device& device, std::span<const float> v, std::span<uint16_t> out) {
  if (device.is_host()) {
    static const tutti_codec& codec = find_codec("bf16");
    codec.encode(v.data(), v.size(), out.data(), codec.context);
  } else if (!v.empty()) {
    halves_at(device, out.data(), out.size()).copy_(tensor_at(device, v));
  }
}

void from_bf16(const Device& device, std::span<const uint16_t> v, std::span<float> out) {
  if (device.is_host()) {
    static const tutti_codec& codec = find_codec("bf16");
    codec.decode(v.data(), v.size(), out.data(), codec.context);
  } else if (!v.empty()) {
    tensor_at(device, out).copy_(halves_at(device, v.data(), v.size()));
  }
}

template <class Real>
void Vectors<Real>::descend(const Device& device, std::span<Real> w, std::span<const Real> g,
                            Real rate) {
  if (device.is_host())
    for (size_t i = 0; i < w.size(); ++i) w[i] -= rate * g[i];
  else if (!w.empty())
    tensor_at(device, w).sub_(tensor_at(device, g), double(rate));
}

template <class Real>
void Vectors<Real>::accelerate(const Device& device, std::span<Real> m, std::span<const Real> g,
                               Real momentum) {
  if (device.is_host())
    for (size_t i = 0; i < m.size(); ++i) m[i] = momentum * m[i] + g[i];
  else if (!m.empty())
    tensor_at(device, m).mul_(double(momentum)).add_(tensor_at(device, g));
}

template <class Real>
void Vectors<Real>::adam(const Device& device, const Moments& moments,
                         std::span<const Real> gradient, std::span<const Real> parameters,
                         Real decay, std::span<Real> step) {
  const auto [mean, square, beta1, beta2, unbias1, unbias2, epsilon] = moments;
  if (device.is_host()) {
    Real* const m = mean.data();
    Real* const v = square.data();
    const Real* const g = gradient.data();
    const Real* const w = parameters.data();
    for (size_t i = 0; i < step.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      step[i] = m[i] * unbias1 / (std::sqrt(v[i] * unbias2) + epsilon) + decay * w[i];
    }
  } else if (!step.empty()) {
    const Tensor g = tensor_at(device, gradient), w = tensor_at(device, parameters);
    Tensor m = tensor_at(device, mean), v = tensor_at(device, square);
    m.mul_(double(beta1)).add_(g, double(1 - beta1));
    v.mul_(double(beta2)).addcmul_(g, g, double(1 - beta2));
    const Tensor length = (v * double(unbias2)).sqrt_().add_(double(epsilon));
    tensor_at(device, step).copy_(m).mul_(double(unbias1)).div_(length).add_(w, double(decay));
  }
}

template struct Vectors<float>;
template struct Vectors<double>;

}  // namespace tutti::train
