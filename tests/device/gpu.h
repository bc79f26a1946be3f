// What tests do with the driver.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "lib/base/clock.h"
#include "lib/device/driver.h"

namespace tutti::testing {

using device::Address;

inline void* at(Address address) { return reinterpret_cast<void*>(address); }

// The driver with a GPU current.
struct Gpu {
  device::Driver* driver = nullptr;
  std::unique_ptr<device::Driver::Current> here;
  explicit Gpu(int number = 0) {
    const Status got = device::Driver::get(&driver);
    EXPECT_TRUE(got.ok()) << got.text();
    here = std::make_unique<device::Driver::Current>(*driver, number);
    EXPECT_TRUE(here->status().ok()) << here->status().text();
  }
  device::Driver* operator->() const { return driver; }
  Address memory(size_t bytes) const {
    Address made = 0;
    const Status status = driver->allocate(bytes, &made);
    EXPECT_TRUE(status.ok()) << status.text();
    return made;
  }
  device::Stream stream() const {
    device::Stream made = nullptr;
    EXPECT_TRUE(driver->make_stream(&made).ok());
    return made;
  }
  uint32_t word(Address address) const {
    uint32_t value = 0;
    const Status status = driver->copy(&value, at(address), sizeof(value));
    EXPECT_TRUE(status.ok()) << status.text();
    return value;
  }
  void set_word(Address address, uint32_t value) const {
    const Status status = driver->copy(at(address), &value, sizeof(value));
    EXPECT_TRUE(status.ok()) << status.text();
  }
  // Waits, for so long at most, until what the stream holds has ended.
  bool drained(device::Stream stream, int64_t milliseconds = 20'000) const {
    device::Event event = nullptr;
    EXPECT_TRUE(driver->make_event(&event).ok());
    EXPECT_TRUE(driver->record(event, stream).ok());
    const uint64_t deadline = deadline_after_ms(milliseconds);
    bool ended = false;
    while (!ended && now_ns() < deadline) {
      EXPECT_TRUE(driver->ended(event, &ended).ok());
      std::this_thread::yield();
    }
    driver->release_event(event);
    return ended;
  }
};

// A function of libcuda that tutti does not use.
template <class Function>
Function* cuda_function(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// Makes memory that is exported by a descriptor.
inline Address make_mapped(size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_EQ(cuda_function<decltype(cuMemCreate)>("cuMemCreate")(&handle, bytes, &properties, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(
      cuda_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&address, bytes, 0, 0, 0),
      CUDA_SUCCESS);
  EXPECT_EQ(cuda_function<decltype(cuMemMap)>("cuMemMap")(address, bytes, 0, handle, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(cuda_function<decltype(cuMemSetAccess)>("cuMemSetAccess")(address, bytes, &access, 1),
            CUDA_SUCCESS);
  return address;
}

}  // namespace tutti::testing
