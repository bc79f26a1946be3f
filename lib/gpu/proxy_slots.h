// Bounce buffers for slices of calls between GPU and network: slots, each with room for an input
// and an output. They lie in pinned memory of the host, or on the GPU if the network reaches its
// memory and the host only says what is to be moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/device/driver.h"
#include "lib/schedule/goal.h"

namespace tutti {

class ProxySlots {
 public:
  enum class In : uint8_t { host, gpu };
  static constexpr uint32_t count = 4;
  static constexpr uint64_t bytes = 2 << 20;  // of the input, and of the output

  ProxySlots() = default;
  ~ProxySlots();
  ProxySlots(const ProxySlots&) = delete;
  ProxySlots& operator=(const ProxySlots&) = delete;

  // Once. `device` is current.
  Status allocate(device::Driver& driver, int device, In in);

  // The addresses for the calls of slices.
  std::byte* input(uint32_t slot) const { return memory_ + 2 * slot * bytes; }
  // The input, for a collective with one buffer.
  std::byte* output(Collective collective, uint32_t slot) const {
    return input(slot) + (has_one_buffer(collective) ? 0 : bytes);
  }
  // The address on the GPU.
  device::Address on_gpu(const std::byte* place) const {
    return address_ + uint64_t(place - memory_);
  }

 private:
  device::Driver* driver_ = nullptr;
  int device_ = 0;
  In in_ = In::host;
  std::byte* memory_ = nullptr;
  device::Address address_ = 0;
};

}  // namespace tutti
