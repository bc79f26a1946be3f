// A device and its vectors as LibTorch's types. Only the files that compute include this.
#pragma once

#include <torch/types.h>

#include <span>
#include <type_traits>

#include "trainer/device/device.h"

namespace tutti::train {

inline torch::Device torch_device(const Device& device) {
  return device.is_gpu() ? torch::Device(torch::kCUDA, torch::DeviceIndex(device.gpu()))
                         : torch::Device(torch::kCPU);
}

// The vector itself, not a copy; words of 16 bits are bfloat16.
template <class T>
torch::Tensor tensor_at(const Device& device, std::span<T> vector) {
  using Value = std::remove_const_t<T>;
  const auto type = std::is_same_v<Value, uint16_t>    ? torch::kBFloat16
                    : std::is_same_v<Value, std::byte> ? torch::kUInt8
                    : std::is_same_v<Value, double>    ? torch::kFloat64
                                                       : torch::kFloat32;
  const auto options = torch::dtype(type).device(torch_device(device));
  if (vector.empty()) return torch::empty({0}, options);  // there is no GPU that null belongs to
  return torch::from_blob(const_cast<Value*>(vector.data()), {int64_t(vector.size())}, options);
}

}  // namespace tutti::train
