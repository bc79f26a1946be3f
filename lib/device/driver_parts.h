// What the parts of the driver share: the loaded functions and what is kept for each GPU.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/driver.h"

// cuda.h maps each name to the function's newest version by a macro; these names go through it.
#define TUTTI_CUDA_FUNCTIONS(X)        \
  X(cuInit)                            \
  X(cuDriverGetVersion)                \
  X(cuDeviceGetCount)                  \
  X(cuDeviceGet)                       \
  X(cuDeviceGetName)                   \
  X(cuDeviceTotalMem)                  \
  X(cuDeviceGetAttribute)              \
  X(cuDeviceCanAccessPeer)             \
  X(cuDevicePrimaryCtxRetain)          \
  X(cuCtxPushCurrent)                  \
  X(cuCtxPopCurrent)                   \
  X(cuCtxGetDevice)                    \
  X(cuCtxEnablePeerAccess)             \
  X(cuCtxGetStreamPriorityRange)       \
  X(cuThreadExchangeStreamCaptureMode) \
  X(cuPointerGetAttribute)             \
  X(cuPointerGetAttributes)            \
  X(cuMemAlloc)                        \
  X(cuMemFree)                         \
  X(cuMemHostAlloc)                    \
  X(cuMemHostGetDevicePointer)         \
  X(cuMemFreeHost)                     \
  X(cuMemGetAddressRange)              \
  X(cuMemcpyAsync)                     \
  X(cuMemsetD8Async)                   \
  X(cuIpcGetMemHandle)                 \
  X(cuIpcOpenMemHandle)                \
  X(cuIpcCloseMemHandle)               \
  X(cuMemRetainAllocationHandle)       \
  X(cuMemExportToShareableHandle)      \
  X(cuMemImportFromShareableHandle)    \
  X(cuMemRelease)                      \
  X(cuMemAddressReserve)               \
  X(cuMemAddressFree)                  \
  X(cuMemMap)                          \
  X(cuMemUnmap)                        \
  X(cuMemSetAccess)                    \
  X(cuStreamCreateWithPriority)        \
  X(cuStreamDestroy)                   \
  X(cuStreamSynchronize)               \
  X(cuStreamWaitEvent)                 \
  X(cuStreamBatchMemOp)                \
  X(cuStreamBeginCapture)              \
  X(cuStreamEndCapture)                \
  X(cuEventCreate)                     \
  X(cuEventDestroy)                    \
  X(cuEventRecord)                     \
  X(cuEventQuery)                      \
  X(cuGraphInstantiate)                \
  X(cuGraphDestroy)                    \
  X(cuGraphLaunch)                     \
  X(cuGraphExecDestroy)                \
  X(cuModuleLoadData)                  \
  X(cuModuleGetFunction)               \
  X(cuLaunchKernel)

namespace tutti::device {

template <auto* function>
using Pointer = decltype(function);

struct Driver::Functions {
#define TUTTI_MEMBER(name) Pointer<::name> name = nullptr;
  TUTTI_CUDA_FUNCTIONS(TUTTI_MEMBER)
#undef TUTTI_MEMBER
  decltype(&::cuGetErrorString) words = nullptr;
  // Versions whose types differ between the headers of CUDA 12 and 13.
  CUresult (*uuid)(CUuuid*, CUdevice) = nullptr;
  CUresult (*load_function)(CUfunction) = nullptr;  // null before CUDA 12.4
  CUresult (*capture_info)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                           const CUgraphNode**, size_t*) = nullptr;

  Status load();

  Status failure(CUresult result, const char* function, const std::string& what) const;
  // OK, or an error with `function`, what it was to do, the current GPU and the driver's error
  // text.
  Status check(CUresult result, const char* function) const {
    if (result == CUDA_SUCCESS) return {};
    return failure(result, function, "");
  }
  template <class What>
  Status check(CUresult result, const char* function, What&& what) const {
    if (result == CUDA_SUCCESS) return {};
    return failure(result, function, what());
  }
};

// Released memory, kept for later allocations, where freeing it could deadlock; see
// Driver::keep_released_memory().
class KeptMemory {
 public:
  struct Block {
    void* host = nullptr;  // its address on the host, if it is pinned memory
    Address address = 0;
  };

  // A kept block of at least so many bytes and about twice as many at most; false: there is none.
  bool take(size_t bytes, Block* out);
  // A newly allocated block is in use from here on.
  void lend(size_t bytes, const Block& block);
  // Whether the block is kept; else the caller frees it. Pinned memory is identified by `host`.
  bool give_back(const Block& block, bool keeps);
  std::vector<Block> all();  // none is kept any more

 private:
  using Key = uintptr_t;
  static Key key_of(const Block& block) {
    return block.host != nullptr ? reinterpret_cast<Key>(block.host) : block.address;
  }
  std::mutex mutex_;
  std::map<Key, std::pair<size_t, Block>> lent_;
  std::multimap<size_t, Block> kept_;  // by bytes
};

struct Driver::Device {
  CUdevice handle = 0;
  Info info;
  std::mutex mutex;             // guards what follows; each member is set once
  CUcontext context = nullptr;  // primary, kept until the process ends
  CUstream copies = nullptr;    // of copy() and fill()
  CUstream urgent = nullptr;    // of write_words()
  std::map<std::string, CUfunction, std::less<>> kernels;
  // Have their own locks.
  std::atomic<bool> keeps_memory{false};
  KeptMemory memory, pinned;

  Status describe(const Functions& functions);
  Status open(const Functions& functions);
  Status open_streams(const Functions& functions);
  Status load_kernels(const Functions& functions);
};

inline CUstream cuda_stream(Stream stream) { return static_cast<CUstream>(stream); }
inline CUevent cuda_event(Event event) { return static_cast<CUevent>(event); }

}  // namespace tutti::device
