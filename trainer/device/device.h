// Where a rank computes: on the host, or on a GPU. The host cannot read a rank's vectors on a GPU:
// values are read through OnHost (vectors.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace tutti::train {

class Device {
 public:
  Device() = default;  // the host
  // Opens the device of --device; `local_rank` picks the GPU if the name does not. Loads LibTorch's
  // GPU libraries, so it must precede any other use of LibTorch. Throws BadInput if there is no
  // such GPU.
  static Device open(const std::string& name, int local_rank);
  // Whether the name is valid for --device; touches no device.
  static bool is_name(const std::string& name);
  static bool names_gpu(const std::string& name);

  // Whether vectors lie in ordinary memory of the host.
  bool is_host() const { return kind_ == Kind::host; }
  bool is_gpu() const { return kind_ == Kind::gpu; }
  int gpu() const { return number_; }
  std::string name() const;  // "cpu", "cuda:0"
  // Waits until all work that LibTorch has enqueued on the device is done.
  void wait() const;

 private:
  // simulated: the host, used as though it were a GPU, to test the code for GPUs.
  enum class Kind { host, gpu, simulated };
  Kind kind_ = Kind::host;
  int number_ = -1;
};

// Zeros on the device.
std::shared_ptr<void> device_memory(const Device& device, size_t bytes);
// Memory of the host; for a GPU it is pinned, so that the GPU can access it.
std::shared_ptr<void> host_memory(const Device& device, size_t bytes);
// Copies between memory of the device and of the host. They wait for work enqueued before, and are
// complete on return.
void download(const Device& device, const void* there, void* here, size_t bytes);
void upload(const Device& device, const void* here, void* there, size_t bytes);

}  // namespace tutti::train
