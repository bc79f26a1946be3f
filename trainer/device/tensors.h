// A device and its vectors as LibTorch's types. Only the files that compute include this.
#pragma once

#include <torch/types.h>

#include <span>

#include "trainer/device/device.h"

namespace tutti::train {

inline torch::Device torch_device(const Device& device) {
  return device.is_gpu() ? torch::Device(torch::kCUDA, torch::DeviceIndex(device.gpu()))
                         : torch::Device(torch::kCPU);
}

// The vector itself, not a copy.
template <class Real>
torch::Tensor tensor_at(const Device& device, std::span<const Real> vector) {
  const auto type = torch::dtype(sizeof(Real) == 8 ? torch::kFloat64 : torch::kFloat32);
  return torch::from_blob(const_cast<Real*>(vector.data()), {int64_t(vector.size())},
                          type.device(torch_device(device)));
}
template <class Real>
torch::Tensor tensor_at(const Device& device, std::span<Real> vector) {
  return tensor_at<Real>(device, std::span<const Real>(vector));
}

}  // namespace tutti::train
