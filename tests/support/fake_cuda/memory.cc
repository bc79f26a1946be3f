// Allocations, IPC handles and copies. Device memory is a memory file, so that other processes can
// open it: a handle names the process, its descriptor and the allocation.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "tests/support/fake_cuda/state.h"

namespace fake {

namespace {

constexpr size_t page = 4096;
constexpr size_t pattern_bytes = 64 << 10;  // fill pattern of new memory, which is not zeroed

// The first page of the file of an allocation.
struct SharedHeader {
  uint64_t id;
  std::atomic<uint64_t> importers;
};

struct Handle {
  int32_t pid, fd;
  uint64_t id, bytes;
  int32_t device;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

size_t whole_pages(size_t bytes) { return (bytes + page - 1) / page * page; }

// Maps an allocation's file between guard pages.
bool map(Allocation& allocation) {
  const size_t bytes = whole_pages(allocation.bytes);
  void* const around = mmap(nullptr, bytes + 2 * page, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (around == MAP_FAILED) return false;
  void* const base = static_cast<std::byte*>(around) + page;
  void* const header = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, allocation.fd, 0);
  if (header == MAP_FAILED || mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                   allocation.fd, page) == MAP_FAILED) {
    return false;
  }
  allocation.base = reinterpret_cast<uintptr_t>(base);
  allocation.header = header;
  return true;
}

// Its addresses are never reused.
void unmap(const Allocation& allocation) {
  mmap(reinterpret_cast<void*>(allocation.base), whole_pages(allocation.bytes), PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  munmap(allocation.header, page);
  state().freed[allocation.base] = allocation.bytes;
}

SharedHeader& header_of(const Allocation& allocation) {
  return *static_cast<SharedHeader*>(allocation.header);
}

CUresult allocate(CUdeviceptr* out, size_t bytes, Allocation::Kind kind) {
  State& all = state();
  if (const CUresult unsafe = unsafe_while_capturing(); unsafe != CUDA_SUCCESS) return unsafe;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  size_t& used = all.used[context().device];
  const uint64_t limit = setting("FAKE_CUDA_MEMORY", uint64_t(2) << 30);
  if (bytes > limit || used > limit - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation made;
  made.kind = kind;
  made.bytes = bytes;
  made.device = context().device;
  made.fd = memfd_create("fake-cuda", MFD_CLOEXEC);
  if (made.fd < 0 || ftruncate(made.fd, off_t(whole_pages(bytes) + page)) != 0 || !map(made)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  used += bytes;
  header_of(made).id = ++all.counts.allocations;
  std::memset(reinterpret_cast<void*>(made.base), 0xa5, std::min(bytes, pattern_bytes));
  *out = made.base;
  all.allocations[made.base] = made;
  return CUDA_SUCCESS;
}

}  // namespace

Allocation* find(uintptr_t address) {
  auto& all = state().allocations;
  auto after = all.upper_bound(address);
  if (after == all.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  return address - allocation.base < allocation.bytes ? &allocation : nullptr;
}

CUresult check_range(uintptr_t address, size_t bytes) {
  if (const Allocation* allocation = find(address)) {
    return bytes <= allocation->bytes - (address - allocation->base) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_VALUE;
  }
  auto& freed = state().freed;
  const auto after = freed.upper_bound(address);
  if (after == freed.begin()) return CUDA_SUCCESS;
  const auto& [base, size] = *std::prev(after);
  return address - base < size ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool is_pageable(uintptr_t address) { return find(address) == nullptr; }

}  // namespace fake

using fake::Allocation;
using fake::Call;
using fake::state;

CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  const Call call("cuMemAlloc");
  if (call.error() != CUDA_SUCCESS) return call.error();
  return fake::allocate(out, bytes, Allocation::Kind::device);
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int) {
  const Call call("cuMemAllocManaged");
  if (call.error() != CUDA_SUCCESS) return call.error();
  return fake::allocate(out, bytes, Allocation::Kind::managed);
}

CUresult cuMemFree(CUdeviceptr memory) {
  Call call("cuMemFree");
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (const CUresult unsafe = fake::unsafe_while_capturing(); unsafe != CUDA_SUCCESS) return unsafe;
  call.wait_for_context();
  const auto found = state().allocations.find(memory);
  if (found == state().allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  const Allocation& allocation = found->second;
  if (allocation.kind != Allocation::Kind::device && allocation.kind != Allocation::Kind::managed) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (fake::header_of(allocation).importers.load() != 0) ++state().counts.freed_while_imported;
  state().used[allocation.device] -= allocation.bytes;
  fake::unmap(allocation);
  close(allocation.fd);
  state().allocations.erase(found);
  ++state().counts.frees;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int) {
  const Call call("cuMemHostAlloc");
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (const CUresult unsafe = fake::unsafe_while_capturing(); unsafe != CUDA_SUCCESS) return unsafe;
  void* const memory = mmap(nullptr, fake::whole_pages(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == 0 || memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation made;
  made.kind = Allocation::Kind::pinned;
  made.base = reinterpret_cast<uintptr_t>(memory);
  made.bytes = bytes;
  made.device = fake::context().device;
  state().allocations[made.base] = made;
  ++state().counts.allocations;
  *out = memory;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  Call call("cuMemFreeHost");
  if (call.error() != CUDA_SUCCESS) return call.error();
  call.wait_for_context();
  const auto found = state().allocations.find(reinterpret_cast<uintptr_t>(memory));
  if (found == state().allocations.end() || found->second.kind != Allocation::Kind::pinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(memory, fake::whole_pages(found->second.bytes));
  state().allocations.erase(found);
  ++state().counts.frees;
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* memory, size_t bytes, unsigned int) {
  const Call call("cuMemHostRegister");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const auto base = reinterpret_cast<uintptr_t>(memory);
  if (bytes == 0 || fake::find(base) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation made;
  made.kind = Allocation::Kind::registered;
  made.base = base;
  made.bytes = bytes;
  made.device = fake::context().device;
  state().allocations[base] = made;
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* memory) {
  const Call call("cuMemHostUnregister");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const auto found = state().allocations.find(reinterpret_cast<uintptr_t>(memory));
  if (found == state().allocations.end() || found->second.kind != Allocation::Kind::registered) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  state().allocations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* memory, unsigned int) {
  const Call call("cuMemHostGetDevicePointer");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const Allocation* const found = fake::find(reinterpret_cast<uintptr_t>(memory));
  if (found == nullptr || found->fd >= 0) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr memory) {
  const Call call("cuMemGetAddressRange");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const Allocation* const found = fake::find(memory);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *base = found->base;
  *bytes = found->bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  const Call call("cuPointerGetAttribute", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  const Allocation* const found = fake::find(pointer);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) return CUDA_ERROR_NOT_SUPPORTED;
  *static_cast<bool*>(value) = found->kind == Allocation::Kind::device;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int number, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr pointer) {
  const Call call("cuPointerGetAttributes");
  if (call.error() != CUDA_SUCCESS) return call.error();
  using Kind = Allocation::Kind;
  const Allocation* const found = fake::find(pointer);
  const bool host =
      found != nullptr && (found->kind == Kind::pinned || found->kind == Kind::registered);
  for (unsigned int i = 0; i < number; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned int*>(values[i]) = found == nullptr ? 0
                                                 : host           ? CU_MEMORYTYPE_HOST
                                                                  : CU_MEMORYTYPE_DEVICE;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<bool*>(values[i]) = found != nullptr && found->kind == Kind::managed;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = found == nullptr ? -2 : found->device;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(values[i]) = found == nullptr ? 0 : found->base;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t*>(values[i]) = found == nullptr ? 0 : found->bytes;
        break;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr memory) {
  const Call call("cuIpcGetMemHandle");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const Allocation* const found = fake::find(memory);
  if (found == nullptr || found->base != memory || found->kind != Allocation::Kind::device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const fake::Handle handle{getpid(), found->fd, fake::header_of(*found).id, found->bytes,
                            found->device};
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle opaque, unsigned int flags) {
  const Call call("cuIpcOpenMemHandle");
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  fake::Handle handle{};
  std::memcpy(&handle, &opaque, sizeof(handle));
  if (handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<std::byte> key(sizeof(opaque));
  std::memcpy(key.data(), &opaque, sizeof(opaque));
  for (auto& [base, allocation] : state().allocations) {
    if (allocation.handle != key || allocation.device != fake::context().device) continue;
    ++allocation.users;
    *out = base;
    return CUDA_SUCCESS;
  }
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  Allocation made;
  made.kind = Allocation::Kind::imported;
  made.bytes = handle.bytes;
  made.device = fake::context().device;
  made.handle = key;
  made.fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (made.fd < 0 || !fake::map(made)) return CUDA_ERROR_INVALID_VALUE;
  if (fake::header_of(made).id != handle.id) return CUDA_ERROR_INVALID_VALUE;
  ++fake::header_of(made).importers;
  state().allocations[made.base] = made;
  *out = made.base;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr memory) {
  Call call("cuIpcCloseMemHandle");
  if (call.error() != CUDA_SUCCESS) return call.error();
  call.wait_for_context();
  const auto found = state().allocations.find(memory);
  if (found == state().allocations.end() || found->second.kind != Allocation::Kind::imported) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (--found->second.users > 0) return CUDA_SUCCESS;
  --fake::header_of(found->second).importers;
  fake::unmap(found->second);
  close(found->second.fd);
  state().allocations.erase(found);
  return CUDA_SUCCESS;
}
