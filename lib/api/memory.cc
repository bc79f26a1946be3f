// The part of the C API for memory that ranks share.
#include "lib/api/guard.h"
#include "lib/device/driver.h"

using tutti::Communicator;
using tutti::Status;

namespace {

Status check_size(size_t bytes) {
  if (bytes == 0) return {TUTTI_INVALID, "memory of 0 bytes cannot be shared"};
  if (bytes > size_t(PTRDIFF_MAX) / 2) {
    return {TUTTI_INVALID, std::to_string(bytes) + " bytes are more than memory can hold"};
  }
  return {};
}

}  // namespace

tutti_status tutti_mem_alloc(tutti_comm comm, size_t bytes, void** out) {
  return tutti::api::calling(comm, [&](Communicator& c) {
    Status checked = check_size(bytes);
    if (checked.ok() && out == nullptr) {
      checked = {TUTTI_INVALID, "there is nowhere to put the address of the memory"};
    }
    if (!checked.ok()) return c.fail(std::move(checked));
    return c.mem_alloc(bytes, out);
  });
}

tutti_status tutti_mem_free(tutti_comm comm, void* memory) {
  return tutti::api::guarded(
      comm, [&](Communicator& c) { return memory == nullptr ? TUTTI_OK : c.mem_release(memory); });
}

tutti_status tutti_mem_register(tutti_comm comm, void* address, size_t bytes, int fd,
                                uint64_t offset) {
  return tutti::api::calling(comm, [&](Communicator& c) {
    Status checked = check_size(bytes);
    if (checked.ok() && address == nullptr) checked = {TUTTI_INVALID, "the memory is NULL"};
    if (!checked.ok()) return c.fail(std::move(checked));
    return c.mem_register(address, bytes, fd, offset);
  });
}

tutti_status tutti_mem_deregister(tutti_comm comm, void* address) {
  return tutti::api::guarded(comm, [&](Communicator& c) { return c.mem_release(address); });
}

tutti_status tutti_mem_adopt(tutti_comm comm, void* address, size_t bytes) {
  return tutti::api::calling(comm, [&](Communicator& c) {
    Status checked = check_size(bytes);
    if (checked.ok() && address == nullptr) checked = {TUTTI_INVALID, "the memory is NULL"};
    if (!checked.ok()) return c.fail(std::move(checked));
    return c.mem_adopt(address, bytes);
  });
}

tutti_status tutti_mem_release(tutti_comm comm, void* address) {
  return tutti::api::guarded(comm, [&](Communicator& c) { return c.mem_release(address); });
}

tutti_status tutti_mem_alloc_device(tutti_comm comm, size_t bytes, void** out) {
  return tutti::api::calling(comm, [&](Communicator& c) {
    Status checked = check_size(bytes);
    if (checked.ok() && out == nullptr) {
      checked = {TUTTI_INVALID, "there is nowhere to put the address of the memory"};
    }
    if (!checked.ok()) return c.fail(std::move(checked));
    return c.mem_alloc_device(bytes, out);
  });
}

tutti_status tutti_mem_register_device(tutti_comm comm, void* address, size_t bytes) {
  return tutti::api::calling(comm, [&](Communicator& c) {
    Status checked = check_size(bytes);
    if (checked.ok() && address == nullptr) checked = {TUTTI_INVALID, "the memory is NULL"};
    if (!checked.ok()) return c.fail(std::move(checked));
    return c.mem_register_device(address, bytes);
  });
}

tutti_status tutti_memory_classify(const void* pointer, tutti_memory_kind* kind, int* device) {
  return tutti::api::guarded([&]() -> Status {
    if (kind == nullptr) return {TUTTI_INVALID, "there is nowhere to put the kind of the memory"};
    tutti::device::Pointed pointed;
    tutti::device::Driver* driver = nullptr;
    // Without a driver all memory is the host's.
    if (tutti::device::Driver::get(&driver).ok()) pointed = driver->classify(pointer);
    *kind = pointed.kind;
    if (device != nullptr) *device = pointed.device;
    return {};
  });
}
