// Memory: classifying pointers, allocating, copying, and importing memory of other processes.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>

#include "lib/base/fd.h"
#include "lib/device/driver_parts.h"

namespace tutti::device {

namespace {

std::string of_bytes(size_t bytes) { return "of " + std::to_string(bytes) + " bytes"; }

// The IPC handles that are open in this process, with a count of their users: the driver need not
// be able to open the same handle twice.
struct Import {
  Address memory = 0;
  uint32_t users = 0;
};
using ImportKey = std::tuple<int, std::array<uint8_t, 64>>;  // of a GPU
struct Imports {
  std::mutex mutex;
  std::map<ImportKey, Import> open;
};
Imports& imports() {
  static auto& all = *new Imports;  // outlives all threads
  return all;
}

// Duplicates a descriptor of another process.
Status borrow_descriptor(int pid, int number, Fd* out) {
  const Fd process(int(syscall(SYS_pidfd_open, pid, 0)));
  if (process) *out = Fd(int(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
  if (*out) return {};
  return system_error("cannot take over the descriptor of memory of process " + std::to_string(pid),
                      errno);
}

}  // namespace

template <class Ask>
auto Driver::in_any_context(const Ask& ask) const {
  CUresult asked = CUDA_ERROR_INVALID_CONTEXT;
  for (int number = 0; number < devices_ && asked == CUDA_ERROR_INVALID_CONTEXT; ++number) {
    const std::lock_guard lock(device_[size_t(number)].mutex);
    CUcontext context = device_[size_t(number)].context;
    if (context == nullptr || functions_->cuCtxPushCurrent(context) != CUDA_SUCCESS) continue;
    asked = ask();
    functions_->cuCtxPopCurrent(&context);
  }
  return asked;
}

Pointed Driver::classify(const void* pointer) const {
  unsigned int type = 0;
  int managed = 0, device = -1;
  Address base = 0;
  size_t bytes = 0;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
      CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&type, &managed, &device, &base, &bytes};
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  Pointed out;
  const auto ask = [&] {
    return functions_->cuPointerGetAttributes(std::size(attributes), attributes, values, address);
  };
  CUresult asked = ask();
  // Some drivers need a current context for this.
  if (asked == CUDA_ERROR_INVALID_CONTEXT) asked = in_any_context(ask);
  if (asked != CUDA_SUCCESS || type == 0) return out;
  if (managed != 0) {
    out.kind = TUTTI_MEMORY_MANAGED;
  } else if (type == CU_MEMORYTYPE_HOST) {
    out.kind = TUTTI_MEMORY_PINNED;
    return out;
  } else {
    out.kind = TUTTI_MEMORY_DEVICE;
  }
  out.device = device;
  out.base = base;
  out.bytes = bytes;
  return out;
}

// ---------------------------------------------------------------- allocating

bool KeptMemory::take(size_t bytes, Block* out) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.lower_bound(bytes);
  if (found == kept_.end() || found->first / 2 > bytes) return false;
  *out = found->second;
  lent_[key_of(*out)] = *found;
  kept_.erase(found);
  return true;
}

void KeptMemory::lend(size_t bytes, const Block& block) {
  const std::lock_guard lock(mutex_);
  lent_[key_of(block)] = {bytes, block};
}

bool KeptMemory::give_back(const Block& block, bool keeps) {
  const std::lock_guard lock(mutex_);
  const auto found = lent_.find(key_of(block));
  if (found == lent_.end()) return false;
  if (keeps) kept_.insert(found->second);
  lent_.erase(found);
  return keeps;
}

std::vector<KeptMemory::Block> KeptMemory::all() {
  const std::lock_guard lock(mutex_);
  std::vector<Block> blocks;
  for (const auto& [bytes, block] : kept_) blocks.push_back(block);
  kept_.clear();
  return blocks;
}

void Driver::keep_released_memory(int device) {
  if (number(device).ok()) device_[size_t(device)].keeps_memory.store(true);
}

Status Driver::allocate(size_t bytes, Address* out) {
  const Functions& f = *functions_;
  Device* device = nullptr;
  TUTTI_TRY(current_device(&device));
  KeptMemory::Block block;
  if (!device->memory.take(bytes, &block)) {
    CUdeviceptr memory = 0;
    CUresult made = f.cuMemAlloc(&memory, bytes);
    if (made == CUDA_ERROR_OUT_OF_MEMORY && free_kept(*device)) {
      made = f.cuMemAlloc(&memory, bytes);
    }
    TUTTI_TRY(f.check(made, "cuMemAlloc", [&] { return of_bytes(bytes); }));
    block.address = memory;
    device->memory.lend(bytes, block);
  }
  *out = block.address;
  return {};
}

bool Driver::free_kept(Device& device) {
  const std::vector<KeptMemory::Block> kept = device.memory.all();
  for (const KeptMemory::Block& block : kept) functions_->cuMemFree(block.address);
  return !kept.empty();
}

void Driver::release(Address memory) {
  Device* device = nullptr;
  if (memory == 0 || !current_device(&device).ok()) return;
  if (device->memory.give_back({nullptr, memory}, device->keeps_memory.load())) return;
  functions_->cuMemFree(memory);
}

Status Driver::allocate_pinned(size_t bytes, void** host, Address* address) {
  const Functions& f = *functions_;
  Device* device = nullptr;
  TUTTI_TRY(current_device(&device));
  KeptMemory::Block block;
  if (!device->pinned.take(bytes, &block)) {
    constexpr unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    TUTTI_TRY(f.check(f.cuMemHostAlloc(&block.host, bytes, flags), "cuMemHostAlloc",
                      [&] { return of_bytes(bytes); }));
    CUdeviceptr reached = 0;
    const Status found =
        f.check(f.cuMemHostGetDevicePointer(&reached, block.host, 0), "cuMemHostGetDevicePointer");
    if (!found.ok()) {
      f.cuMemFreeHost(block.host);
      return found;
    }
    block.address = reached;
    device->pinned.lend(bytes, block);
  }
  *host = block.host;
  *address = block.address;
  return {};
}

void Driver::release_pinned(void* host) {
  Device* device = nullptr;
  if (host == nullptr || !current_device(&device).ok()) return;
  if (device->pinned.give_back({host, 0}, device->keeps_memory.load())) return;
  functions_->cuMemFreeHost(host);
}

// ---------------------------------------------------------------- copying

// Not in the null stream: it would wait for the program's streams, which may wait for other ranks.
Status Driver::copy(void* to, const void* from, size_t bytes) {
  Device* device = nullptr;
  TUTTI_TRY(current_device(&device));
  TUTTI_TRY(copy_on(device->copies, to, from, bytes));
  return functions_->check(functions_->cuStreamSynchronize(device->copies), "cuStreamSynchronize");
}

Status Driver::copy_on(Stream stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return {};
  return functions_->check(
      functions_->cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                reinterpret_cast<CUdeviceptr>(from), bytes, cuda_stream(stream)),
      "cuMemcpyAsync", [&] { return of_bytes(bytes); });
}

Status Driver::fill(Address to, uint8_t byte, size_t bytes) {
  if (bytes == 0) return {};
  const Functions& f = *functions_;
  Device* device = nullptr;
  TUTTI_TRY(current_device(&device));
  TUTTI_TRY(f.check(f.cuMemsetD8Async(to, byte, bytes, device->copies), "cuMemsetD8Async",
                    [&] { return of_bytes(bytes); }));
  return f.check(f.cuStreamSynchronize(device->copies), "cuStreamSynchronize");
}

Status Driver::export_memory(Address memory, Exported* out) {
  const Functions& f = *functions_;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  TUTTI_TRY(f.check(f.cuMemGetAddressRange(&base, &bytes, memory), "cuMemGetAddressRange"));
  if (base != memory) return {TUTTI_INTERNAL, "what is exported begins no allocation"};
  out->bytes = bytes;
  int by_handle = 0;
  TUTTI_TRY(f.check(
      f.cuPointerGetAttribute(&by_handle, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory),
      "cuPointerGetAttribute"));
  if (by_handle != 0) {
    CUipcMemHandle handle{};
    TUTTI_TRY(f.check(f.cuIpcGetMemHandle(&handle, memory), "cuIpcGetMemHandle",
                      [&] { return of_bytes(bytes); }));
    static_assert(sizeof(handle) == sizeof(out->handle));
    std::memcpy(out->handle.data(), &handle, sizeof(handle));
    out->kind = Exported::Kind::handle;
    return {};
  }
  CUmemGenericAllocationHandle allocation = 0;
  TUTTI_TRY(f.check(f.cuMemRetainAllocationHandle(&allocation, reinterpret_cast<void*>(memory)),
                    "cuMemRetainAllocationHandle", [&] { return of_bytes(bytes); }));
  int fd = -1;
  const Status exported = f.check(
      f.cuMemExportToShareableHandle(&fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      "cuMemExportToShareableHandle", [&] { return of_bytes(bytes); });
  f.cuMemRelease(allocation);
  TUTTI_TRY(Status(exported));
  out->kind = Exported::Kind::descriptor;
  out->fd = fd;
  return {};
}

void Driver::close_export(Exported& exported) {
  if (exported.fd >= 0) ::close(std::exchange(exported.fd, -1));
}

Status Driver::import_memory(const Exported& exported, int pid, Address* out) {
  return exported.kind == Exported::Kind::handle ? import_handle(exported, pid, out)
                                                 : import_descriptor(exported, pid, out);
}

Status Driver::import_handle(const Exported& exported, int pid, Address* out) {
  const Functions& f = *functions_;
  Imports& all = imports();
  const std::lock_guard lock(all.mutex);
  const ImportKey key{current(), exported.handle};
  if (const auto found = all.open.find(key); found != all.open.end()) {
    ++found->second.users;
    *out = found->second.memory;
    return {};
  }
  CUipcMemHandle handle{};
  std::memcpy(&handle, exported.handle.data(), sizeof(handle));
  CUdeviceptr memory = 0;
  const CUresult opened = f.cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  Status status = f.check(opened, "cuIpcOpenMemHandle", [&] {
    return of_bytes(exported.bytes) + " of process " + std::to_string(pid);
  });
  // The driver's errors for memory on a GPU that cannot be reached.
  if (opened == CUDA_ERROR_MAP_FAILED || opened == CUDA_ERROR_INVALID_DEVICE ||
      opened == CUDA_ERROR_TOO_MANY_PEERS) {
    return {TUTTI_UNSUPPORTED, status.text()};
  }
  TUTTI_TRY(std::move(status));
  all.open[key] = {memory, 1};
  *out = memory;
  return {};
}

Status Driver::import_descriptor(const Exported& exported, int pid, Address* out) {
  const Functions& f = *functions_;
  Fd fd;
  TUTTI_TRY(borrow_descriptor(pid, exported.fd, &fd));
  const auto what = [&] { return of_bytes(exported.bytes) + " of process " + std::to_string(pid); };
  CUmemGenericAllocationHandle allocation = 0;
  TUTTI_TRY(f.check(
      f.cuMemImportFromShareableHandle(&allocation, reinterpret_cast<void*>(uintptr_t(fd.get())),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle", what));
  CUdeviceptr memory = 0;
  Status status =
      f.check(f.cuMemAddressReserve(&memory, exported.bytes, 0, 0, 0), "cuMemAddressReserve", what);
  bool mapped = false;
  if (status.ok()) {
    status = f.check(f.cuMemMap(memory, exported.bytes, 0, allocation, 0), "cuMemMap", what);
    mapped = status.ok();
  }
  f.cuMemRelease(allocation);  // a mapping keeps the memory
  if (mapped) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = current();
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    status = f.check(f.cuMemSetAccess(memory, exported.bytes, &access, 1), "cuMemSetAccess", what);
  }
  if (!status.ok()) {
    if (mapped) f.cuMemUnmap(memory, exported.bytes);
    if (memory != 0) f.cuMemAddressFree(memory, exported.bytes);
    return status;
  }
  *out = memory;
  return {};
}

void Driver::close_import(const Exported& exported, Address memory) {
  const Functions& f = *functions_;
  if (exported.kind == Exported::Kind::descriptor) {
    f.cuMemUnmap(memory, exported.bytes);
    f.cuMemAddressFree(memory, exported.bytes);
    return;
  }
  Imports& all = imports();
  const std::lock_guard lock(all.mutex);
  const auto found = all.open.find({current(), exported.handle});
  if (found == all.open.end() || --found->second.users > 0) return;
  all.open.erase(found);
  f.cuIpcCloseMemHandle(memory);
}

Status Driver::reach(int device, const std::array<uint8_t, 16>& uuid, bool* reaches) {
  TUTTI_TRY(number(device));
  *reaches = true;
  int other = 0;
  while (other < devices_ && device_[size_t(other)].info.uuid != uuid) ++other;
  if (other == devices_ || other == device) return {};
  const Functions& f = *functions_;
  int can = 0;
  TUTTI_TRY(f.check(
      f.cuDeviceCanAccessPeer(&can, device_[size_t(device)].handle, device_[size_t(other)].handle),
      "cuDeviceCanAccessPeer"));
  *reaches = can != 0;
  CUcontext theirs = nullptr;
  {
    const std::lock_guard lock(device_[size_t(other)].mutex);
    theirs = device_[size_t(other)].context;
  }
  if (!*reaches || theirs == nullptr) return {};
  const Current here(*this, device);
  TUTTI_TRY(Status(here.status()));
  const CUresult enabled = f.cuCtxEnablePeerAccess(theirs, 0);
  if (enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return {};
  return f.check(enabled, "cuCtxEnablePeerAccess",
                 [&] { return "to GPU " + std::to_string(other); });
}

}  // namespace tutti::device
