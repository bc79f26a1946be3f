// Loading the driver's functions, and their errors as texts.
#include <dlfcn.h>

#include "lib/device/driver_parts.h"

namespace tutti::device {

namespace {

Status symbol(void* library, const char* name, void** out) {
  *out = dlsym(library, name);
  if (*out != nullptr) return {};
  return {TUTTI_UNSUPPORTED,
          std::string("the driver of the GPUs is too old: it has no ") + name + "()"};
}

}  // namespace

Status Driver::Functions::load() {
  // Never closed: the driver's threads and contexts live as long as the process.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {TUTTI_UNSUPPORTED, std::string("there is no driver of GPUs: ") + dlerror()};
  }
  const auto get = [library](const char* name, auto* out) {
    return symbol(library, name, reinterpret_cast<void**>(out));
  };
#define TUTTI_TEXT(name) #name
#define TUTTI_LOAD(name) TUTTI_TRY(get(TUTTI_TEXT(name), &(name)));
  TUTTI_CUDA_FUNCTIONS(TUTTI_LOAD)
#undef TUTTI_LOAD
#undef TUTTI_TEXT
  TUTTI_TRY(get("cuGetErrorString", &words));
  TUTTI_TRY(get("cuDeviceGetUuid_v2", &uuid));
  load_function = reinterpret_cast<decltype(load_function)>(dlsym(library, "cuFuncLoad"));
  return get("cuStreamGetCaptureInfo_v2", &capture_info);
}

Status Driver::Functions::failure(CUresult result, const char* function,
                                  const std::string& what) const {
  std::string text = function;
  if (!what.empty()) text += ' ' + what;
  CUdevice device = -1;
  if (cuCtxGetDevice(&device) == CUDA_SUCCESS) text += " on GPU " + std::to_string(device);
  const char* said = nullptr;
  if (words(result, &said) != CUDA_SUCCESS || said == nullptr) said = "an error without a name";
  text += std::string(": ") + said;
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return {TUTTI_NO_MEMORY, text};
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_NO_DEVICE:
      return {TUTTI_UNSUPPORTED, text};
    default:
      return {TUTTI_SYSTEM, text};
  }
}

}  // namespace tutti::device
