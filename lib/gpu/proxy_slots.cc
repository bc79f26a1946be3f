#include "lib/gpu/proxy_slots.h"

namespace tutti {

Status ProxySlots::allocate(device::Driver& driver, int device, In in) {
  driver_ = &driver;
  device_ = device;
  in_ = in;
  void* memory = nullptr;
  if (in == In::host) {
    TUTTI_TRY(driver.allocate_pinned(2 * count * bytes, &memory, &address_));
  } else {
    TUTTI_TRY(driver.allocate(2 * count * bytes, &address_));
    memory = reinterpret_cast<void*>(address_);  // NOLINT(performance-no-int-to-ptr)
  }
  memory_ = static_cast<std::byte*>(memory);
  return {};
}

ProxySlots::~ProxySlots() {
  if (memory_ == nullptr) return;
  const device::Driver::Current current(*driver_, device_);
  if (in_ == In::host) {
    driver_->release_pinned(memory_);
  } else {
    driver_->release(address_);
  }
}

}  // namespace tutti
