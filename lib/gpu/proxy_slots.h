// Memory through which slices of calls go on their way between GPU and network: slots, each with
// room for what goes in and for what comes out. It is the host's, pinned, where the host makes the
// calls, or the GPU's, where the network reaches that and the host only says what is to be moved.
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
  static constexpr uint64_t bytes = 2 << 20;  // of what goes in, and of what comes out

  ProxySlots() = default;
  ~ProxySlots();
  ProxySlots(const ProxySlots&) = delete;
  ProxySlots& operator=(const ProxySlots&) = delete;

  // Once. `device` is current.
  Status allocate(device::Driver& driver, int device, In in);

  // As whoever makes the calls knows them.
  std::byte* input(uint32_t slot) const { return memory_ + 2 * slot * bytes; }
  // Of a collective with one buffer it is the input.
  std::byte* output(Collective collective, uint32_t slot) const {
    return input(slot) + (has_one_buffer(collective) ? 0 : bytes);
  }
  // As the GPU knows them.
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
