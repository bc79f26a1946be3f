#include "trainer/device/device.h"

#include <ATen/Context.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <cstdlib>

#include "trainer/common/error.h"
#include "trainer/device/tensors.h"

namespace tutti::train {
namespace {

constexpr const char* simulated = "simulated";

// The number in "cuda:N"; -1 in "cuda", -2 in anything else.
int number_in(const std::string& name) {
  if (name == "cuda") return -1;
  if (!name.starts_with("cuda:") || name.size() < 6 || name.size() > 8) return -2;
  for (const char c : name.substr(5))
    if (c < '0' || c > '9') return -2;
  return std::stoi(name.substr(5));
}

// The program is not linked with LibTorch's CUDA libraries, so one build runs with and without
// GPUs. LibTorch looks for them only once.
void load_cuda(const std::string& name) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // else sums differ from run to run
  if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
    const char* why = dlerror();
    throw BadInput(fmt::format("--device {}: this LibTorch ({}) has no CUDA: {}", name,
                               TORCH_VERSION, why ? why : "libtorch_cuda.so cannot be loaded"));
  }
}

// Deterministic algorithms, and products in full float32 (no TF32).
void promise_bits() {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
  context.setDeterministicAlgorithms(true, true);  // LibTorch warns where there is none
}

torch::Tensor bytes_at(const void* address, size_t bytes, torch::Device device) {
  return torch::from_blob(const_cast<void*>(address), {int64_t(bytes)},
                          torch::dtype(torch::kUInt8).device(device));
}

std::shared_ptr<void> memory_of(const torch::Tensor& tensor) {
  auto kept = std::make_shared<torch::Tensor>(tensor);
  return {kept, kept->data_ptr()};
}

}  // namespace

bool Device::is_name(const std::string& name) {
  return name == "cpu" || name == simulated || names_gpu(name);
}

bool Device::names_gpu(const std::string& name) { return number_in(name) >= -1; }

Device Device::open(const std::string& name, int local_rank) {
  Device device;
  if (name == simulated) device.kind_ = Kind::simulated;
  const int number = number_in(name);
  if (number < -1) return device;
  load_cuda(name);
  const auto gpus = int(torch::cuda::device_count());
  if (gpus == 0) throw BadInput(fmt::format("--device {}: LibTorch finds no GPU", name));
  if (number >= gpus)
    throw BadInput(fmt::format("--device {}: there {} {} GPU{}", name, gpus == 1 ? "is" : "are",
                               gpus, gpus == 1 ? "" : "s"));
  device.kind_ = Kind::gpu;
  device.number_ = number >= 0 ? number : local_rank % gpus;
  promise_bits();
  c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).setDevice(torch_device(device));
  return device;
}

std::string Device::name() const {
  if (kind_ == Kind::simulated) return simulated;
  return is_gpu() ? fmt::format("cuda:{}", number_) : "cpu";
}

void Device::wait() const {
  if (!is_gpu()) return;
  const c10::impl::VirtualGuardImpl gpu(c10::DeviceType::CUDA);
  gpu.getDefaultStream(torch_device(*this)).synchronize();
}

std::shared_ptr<void> device_memory(const Device& device, size_t bytes) {
  return memory_of(
      torch::zeros({int64_t(bytes)}, torch::dtype(torch::kUInt8).device(torch_device(device))));
}

std::shared_ptr<void> host_memory(const Device& device, size_t bytes) {
  return memory_of(
      torch::empty({int64_t(bytes)}, torch::dtype(torch::kUInt8).pinned_memory(device.is_gpu())));
}

void download(const Device& device, const void* there, void* here, size_t bytes) {
  if (bytes > 0)
    bytes_at(here, bytes, torch::kCPU).copy_(bytes_at(there, bytes, torch_device(device)));
}

void upload(const Device& device, const void* here, void* there, size_t bytes) {
  if (bytes == 0) return;
  bytes_at(there, bytes, torch_device(device)).copy_(bytes_at(here, bytes, torch::kCPU));
  device.wait();
}

}  // namespace tutti::train
