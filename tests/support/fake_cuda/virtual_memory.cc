// Memory that is created, and mapped at addresses that were reserved.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_cuda/state.h"

namespace {

constexpr size_t granularity = size_t(2) << 20;

struct Physical {
  int fd = -1;
  size_t bytes = 0;
  bool exported = false;  // may be
  uint32_t users = 1;     // handles and mappings
};

std::map<CUmemGenericAllocationHandle, Physical>& physical() {
  static auto& all = *new std::map<CUmemGenericAllocationHandle, Physical>;
  return all;
}
std::map<CUdeviceptr, size_t>& reserved() {
  static auto& all = *new std::map<CUdeviceptr, size_t>;
  return all;
}

CUmemGenericAllocationHandle add(Physical made) {
  static CUmemGenericAllocationHandle last = 0;
  physical()[++last] = made;
  return last;
}

CUresult drop(CUmemGenericAllocationHandle handle) {
  const auto found = physical().find(handle);
  if (found == physical().end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.users == 0) {
    close(found->second.fd);
    physical().erase(found);
  }
  return CUDA_SUCCESS;
}

}  // namespace

using fake::Allocation;
using fake::Call;
using fake::state;

CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  const Call call("cuMemGetAllocationGranularity", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  *out = granularity;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  const Call call("cuMemCreate", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (bytes == 0 || bytes % granularity != 0) return CUDA_ERROR_INVALID_VALUE;
  Physical made;
  made.bytes = bytes;
  made.exported =
      (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  made.fd = memfd_create("fake-cuda", MFD_CLOEXEC);
  if (made.fd < 0 || ftruncate(made.fd, off_t(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = add(made);
  ++state().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Call call("cuMemRelease", Call::Needs::driver);
  return call.error() != CUDA_SUCCESS ? call.error() : drop(handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  const Call call("cuMemRetainAllocationHandle", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  const Allocation* const found = fake::find(reinterpret_cast<uintptr_t>(address));
  if (found == nullptr || found->kind != Allocation::Kind::mapped) return CUDA_ERROR_INVALID_VALUE;
  ++physical().at(found->physical).users;
  *out = found->physical;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  const Call call("cuMemExportToShareableHandle", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  const auto found = physical().find(handle);
  if (found == physical().end() || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !found->second.exported) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *static_cast<int*>(out) = fcntl(found->second.fd, F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* shared,
                                        CUmemAllocationHandleType type) {
  const Call call("cuMemImportFromShareableHandle", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  struct stat file {};
  Physical made;
  made.fd = fcntl(int(reinterpret_cast<uintptr_t>(shared)), F_DUPFD_CLOEXEC, 0);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || made.fd < 0 ||
      fstat(made.fd, &file) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  made.bytes = size_t(file.st_size);
  *out = add(made);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  const Call call("cuMemAddressReserve", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (bytes == 0 || bytes % granularity != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const memory =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUdeviceptr>(memory);
  reserved()[*out] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const Call call("cuMemAddressFree", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  const auto found = reserved().find(address);
  if (found == reserved().end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  reserved().erase(found);
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  const Call call("cuMemMap", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  const auto found = physical().find(handle);
  const auto after = reserved().upper_bound(address);
  if (found == physical().end() || after == reserved().begin() || offset != 0 ||
      bytes > found->second.bytes || fake::find(address) != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto& [base, size] = *std::prev(after);
  if (address - base > size || bytes > size - (address - base)) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
           found->second.fd, 0) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++found->second.users;
  Allocation made;
  made.kind = Allocation::Kind::mapped;
  made.base = address;
  made.bytes = bytes;
  made.physical = handle;
  state().allocations[address] = made;
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t) {
  const Call call("cuMemSetAccess", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  Allocation* const found = fake::find(address);
  if (found == nullptr || found->kind != Allocation::Kind::mapped || found->bytes != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->device = access->location.id;
  mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const Call call("cuMemUnmap", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  const auto found = state().allocations.find(address);
  if (found == state().allocations.end() || found->second.kind != Allocation::Kind::mapped ||
      found->second.bytes != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  const CUmemGenericAllocationHandle handle = found->second.physical;
  state().allocations.erase(found);
  return drop(handle);
}
