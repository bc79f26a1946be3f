// Where a rank computes: on the host, or on a GPU. What a rank's vectors are on a GPU is memory
// that the host cannot read: whoever wants values goes through OnHost (vectors.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace tutti::train {

class Device {
 public:
  Device() = default;  // the host
  // Of --device; `local_rank` picks the GPU where the name leaves it open. Loads what LibTorch has
  // for GPUs, which must come before anything else that LibTorch is asked for. Throws BadInput
  // where there is no such GPU.
  static Device open(const std::string& name, int local_rank);
  // Whether --device can be this at all; touches nothing.
  static bool is_name(const std::string& name);

  // Whether vectors lie in memory of the host as any other.
  bool is_host() const { return kind_ == Kind::host; }
  bool is_gpu() const { return kind_ == Kind::gpu; }
  int gpu() const { return number_; }
  std::string name() const;  // "cpu", "cuda:0"
  // Until all that LibTorch has been told to compute there is done.
  void wait() const;

 private:
  // simulated: the host, used as though it were a GPU, for tests of what runs on GPUs.
  enum class Kind { host, gpu, simulated };
  Kind kind_ = Kind::host;
  int number_ = -1;
};

// Zeros on the device.
std::shared_ptr<void> device_memory(const Device& device, size_t bytes);
// Of the host; on behalf of a GPU such that it reaches it.
std::shared_ptr<void> host_memory(const Device& device, size_t bytes);
// Copies between memory of the device and of the host. What was computed before is in it, and it is
// done when they return.
void download(const Device& device, const void* there, void* here, size_t bytes);
void upload(const Device& device, const void* here, void* there, size_t bytes);

}  // namespace tutti::train
