// GPUs, contexts, modules and kernels.
#include <unistd.h>

#include <cstring>

#include "lib/device/kernels/host.h"
#include "tests/support/fake_cuda/state.h"

namespace {

constexpr uint32_t fatbin_magic = 0xba55ed50;

int devices() { return int(fake::setting("FAKE_CUDA_DEVICES", 1)); }

bool known(CUdevice device) {
  return device >= 0 && size_t(device) < fake::state().contexts.size();
}

fake::Context* context_of(CUcontext handle) {
  for (const auto& context : fake::state().contexts) {
    if (reinterpret_cast<CUcontext>(context.get()) == handle && context->retained) {
      return context.get();
    }
  }
  return nullptr;
}

}  // namespace

using fake::Call;
using fake::state;

CUresult cuInit(unsigned int) {
  const Call call("cuInit", Call::Needs::nothing);
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::State& all = state();
  if (all.initialised) return all.pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  if (devices() == 0) return CUDA_ERROR_NO_DEVICE;
  all.initialised = true;
  all.pid = getpid();
  for (int device = 0; device < devices(); ++device) {
    auto context = std::make_unique<fake::Context>();
    context->device = device;
    all.contexts.push_back(std::move(context));
  }
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* out) {
  *out = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** out) {
  switch (error) {
    case CUDA_ERROR_INVALID_VALUE:
      *out = "invalid argument";
      break;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *out = "out of memory";
      break;
    case CUDA_ERROR_NOT_INITIALIZED:
      *out = "initialization error";
      break;
    case CUDA_ERROR_NO_DEVICE:
      *out = "no CUDA-capable device is detected";
      break;
    case CUDA_ERROR_INVALID_CONTEXT:
      *out = "invalid device context";
      break;
    case CUDA_ERROR_INVALID_HANDLE:
      *out = "invalid resource handle";
      break;
    case CUDA_ERROR_NOT_FOUND:
      *out = "named symbol not found";
      break;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      *out = "operation not permitted when stream is capturing";
      break;
    default:
      *out = "unknown error";
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* out) {
  const Call call("cuDeviceGetCount", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  *out = int(state().contexts.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* out, int number) {
  const Call call("cuDeviceGet", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (!known(number)) return CUDA_ERROR_INVALID_DEVICE;
  *out = number;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* out, int bytes, CUdevice device) {
  const Call call("cuDeviceGetName", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::strncpy(out, "Fake GPU", size_t(bytes));
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
extern "C" CUresult cuDeviceGetUuid_v2(CUuuid* out, CUdevice device) {
  const Call call("cuDeviceGetUuid", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(out, 0x5a, sizeof(*out));
  out->bytes[0] = char(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* out, CUdevice device) {
  const Call call("cuDeviceTotalMem", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = fake::setting("FAKE_CUDA_MEMORY", uint64_t(2) << 30);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* out, CUdevice_attribute attribute, CUdevice device) {
  const Call call("cuDeviceGetAttribute", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *out = 4;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *out = 9;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
      *out = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      *out = int(fake::setting("FAKE_CUDA_ORDERING", CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER));
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
      *out = 1;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDeviceCanAccessPeer(int* out, CUdevice device, CUdevice peer) {
  const Call call("cuDeviceCanAccessPeer", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (!known(device) || !known(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *out = device != peer && fake::setting("FAKE_CUDA_PEER", 1) != 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  const Call call("cuDevicePrimaryCtxRetain", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
  fake::Context& context = *state().contexts[size_t(device)];
  if (!context.retained) {
    context.retained = true;
    context.null_stream = std::make_unique<fake::Stream>();
    context.null_stream->context = &context;
    context.null_stream->queue = std::make_shared<fake::Queue>();
  }
  *out = reinterpret_cast<CUcontext>(&context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  const Call call("cuCtxPushCurrent", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Context* const context = context_of(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  fake::current_contexts().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* out) {
  const Call call("cuCtxPopCurrent");
  if (call.error() != CUDA_SUCCESS) return call.error();
  *out = reinterpret_cast<CUcontext>(&fake::context());
  fake::current_contexts().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  const Call call("cuCtxSetCurrent", Call::Needs::driver);
  if (call.error() != CUDA_SUCCESS) return call.error();
  auto& stack = fake::current_contexts();
  fake::Context* const context = context_of(handle);
  if (handle != nullptr && context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* out) {
  const Call call("cuCtxGetDevice");
  if (call.error() != CUDA_SUCCESS) return call.error();
  *out = fake::context().device;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int) {
  const Call call("cuCtxEnablePeerAccess");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const fake::Context* const peer = context_of(handle);
  if (peer == nullptr || peer == &fake::context()) return CUDA_ERROR_INVALID_CONTEXT;
  return fake::context().peers.insert(peer->device).second ? CUDA_SUCCESS
                                                           : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  const Call call("cuModuleLoadData");
  if (call.error() != CUDA_SUCCESS) return call.error();
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof(magic));
  if (magic != fatbin_magic) return CUDA_ERROR_INVALID_IMAGE;
  *out = reinterpret_cast<CUmodule>(state().module_contexts.size() + 1);
  state().module_contexts[*out] = &fake::context();
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  const Call call("cuModuleGetFunction");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const auto found = state().module_contexts.find(module);
  if (found == state().module_contexts.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (tutti::device::find_host_kernel(name) == nullptr) return CUDA_ERROR_NOT_FOUND;
  auto& function = state().functions[{found->second, name}];
  if (function == nullptr) {
    function = std::make_unique<fake::Function>(fake::Function{found->second, name});
  }
  *out = reinterpret_cast<CUfunction>(function.get());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuFuncLoad(CUfunction) {
  const Call call("cuFuncLoad");
  return call.error();
}

CUresult cuLaunchKernel(CUfunction handle, unsigned int blocks, unsigned int, unsigned int,
                        unsigned int threads, unsigned int, unsigned int, unsigned int,
                        CUstream stream_handle, void**, void** extra) {
  const Call call("cuLaunchKernel");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const fake::Function* known_function = nullptr;
  for (const auto& [key, function] : state().functions) {
    if (reinterpret_cast<CUfunction>(function.get()) == handle) known_function = function.get();
  }
  fake::Stream* const stream = fake::stream_of(stream_handle);
  if (known_function == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (known_function->context != &fake::context()) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == 0 || threads == 0 || threads > 1024 || extra == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const void* arguments = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) arguments = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<size_t*>(extra[1]);
  }
  if (arguments == nullptr || bytes > 4096) return CUDA_ERROR_INVALID_VALUE;
  const auto copied = std::make_shared<std::vector<uint64_t>>((bytes + 7) / 8);
  std::memcpy(copied->data(), arguments, bytes);
  const auto run = tutti::device::find_host_kernel(known_function->name);
  ++state().counts.launches;
  return fake::enqueue(*stream, [run, copied] { run(copied->data()); });
}
