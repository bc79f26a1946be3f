// Flat vectors in the memory of a rank's device, and operations on them. On the host these are
// plain loops in the order that fixes the bits; on a GPU they are LibTorch's operations, with the
// same bits in every run on such a GPU.
#pragma once

#include <span>
#include <vector>

#include "trainer/device/device.h"

namespace tutti::train {

// A vector on the device that owns its memory.
template <class Real>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Device& device, size_t size) : device_(device), size_(size) {  // zeros
    if (device.is_host())
      values_.resize(size);
    else
      memory_ = device_memory(device, size * sizeof(Real));
  }
  Real* data() { return device_.is_host() ? values_.data() : static_cast<Real*>(memory_.get()); }
  const Real* data() const { return const_cast<Buffer*>(this)->data(); }
  size_t size() const { return size_; }
  std::span<Real> span() { return {data(), size_}; }
  std::span<const Real> span() const { return {data(), size_}; }

 private:
  Device device_;
  size_t size_ = 0;
  std::vector<Real> values_;
  std::shared_ptr<void> memory_;
};

// The values of a device's vector where the host can read them: the vector itself on the host, else
// a copy, which store() writes back.
template <class T>
class OnHost {
 public:
  OnHost(const Device& device, std::span<T> vector) : device_(device), vector_(vector) {
    if (device.is_host() || vector.empty()) return;
    memory_ = host_memory(device, vector.size_bytes());
    values_ = {static_cast<T*>(memory_.get()), vector.size()};
    download(device, vector.data(), memory_.get(), vector.size_bytes());
  }
  std::span<T> values() const { return memory_ ? values_ : vector_; }
  void store() const {
    if (memory_) upload(device_, values_.data(), vector_.data(), vector_.size_bytes());
  }

 private:
  Device device_;
  std::span<T> vector_, values_;
  std::shared_ptr<void> memory_;
};

// `Real`: float or double.
template <class Real>
struct Vectors {
  // Copies between two vectors of the device of the same length.
  static void copy(const Device& device, std::span<const Real> from, std::span<Real> to);
  static void clear(const Device& device, std::span<Real> v);  // zeros
  // y = x + y, each element rounded once; the order of the operands does not matter.
  static void add(const Device& device, std::span<const Real> x, std::span<Real> y);
  static void scale(const Device& device, std::span<Real> v, Real factor);

  // `so_far` and the squares of all elements, added one after the other.
  static double with_squares(const Device& device, std::span<const Real> v, double so_far);
  // Adds the squared length times factor^2 to sum[0], which is on the device too, so the host does
  // not wait.
  static void add_squares(const Device& device, std::span<const Real> v, double factor,
                          std::span<double> sum);
  // The terms of an exact sum: the square of each element; for a vector on a GPU, the sum of the
  // squares.
  static void squares_of(const Device& device, std::span<const Real> v, std::vector<double>& out);

  // Steps of optimizers. w -= rate * g; m = momentum * m + g.
  static void descend(const Device& device, std::span<Real> w, std::span<const Real> g, Real rate);
  static void accelerate(const Device& device, std::span<Real> m, std::span<const Real> g,
                         Real momentum);
  // Updates the moments; `step` becomes Adam's direction at w with weight decay, before the
  // learning rate.
  struct Moments {
    std::span<Real> mean, square;
    Real beta1, beta2, unbias1, unbias2, epsilon;
  };
  static void adam(const Device& device, const Moments& moments, std::span<const Real> g,
                   std::span<const Real> w, Real decay, std::span<Real> step);
};

// Rounded to bfloat16 (to nearest, ties to even), as 16-bit words, and back.
void to_bf16(const Device& device, std::span<const float> v, std::span<uint16_t> out);
void from_bf16(const Device& device, std::span<const uint16_t> v, std::span<float> out);

}  // namespace tutti::train
