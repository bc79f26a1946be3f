// Streams, events, waits, captures and kernels.
#include <algorithm>

#include "lib/device/driver_parts.h"
#include "lib/device/kernels/images.h"
#include "lib/device/kernels/list.h"

namespace tutti::device {

namespace {

constexpr const char* kernel_names[] = {"tutti_copy", "tutti_empty",
#define TUTTI_NAME(name, ...) #name,
                                        TUTTI_COMBINE_KERNELS(TUTTI_NAME)
#undef TUTTI_NAME
};

}  // namespace

Status Driver::make_stream(Stream* out) {
  const Functions& f = *functions_;
  CUstream stream = nullptr;
  TUTTI_TRY(f.check(f.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
                    "cuStreamCreateWithPriority"));
  *out = stream;
  return {};
}

void Driver::release_stream(Stream stream) {
  if (stream != nullptr) functions_->cuStreamDestroy(cuda_stream(stream));
}

Status Driver::capture_of(Stream stream, uint64_t* out) {
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CUresult asked =
      functions_->capture_info(cuda_stream(stream), &state, &id, nullptr, nullptr, nullptr);
  if (asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    return {TUTTI_INVALID,
            "the null stream cannot be used while a stream that waits for it is being captured"};
  }
  TUTTI_TRY(functions_->check(asked, "cuStreamGetCaptureInfo"));
  if (state == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
    return {TUTTI_INVALID, "the capture of the stream has failed"};
  }
  *out = state == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
  return {};
}

Status Driver::make_event(Event* out) {
  CUevent event = nullptr;
  TUTTI_TRY(functions_->check(functions_->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING),
                              "cuEventCreate"));
  *out = event;
  return {};
}

void Driver::release_event(Event event) {
  if (event != nullptr) functions_->cuEventDestroy(cuda_event(event));
}

Status Driver::record(Event event, Stream stream) {
  return functions_->check(functions_->cuEventRecord(cuda_event(event), cuda_stream(stream)),
                           "cuEventRecord");
}

Status Driver::wait_event(Stream stream, Event event) {
  return functions_->check(
      functions_->cuStreamWaitEvent(cuda_stream(stream), cuda_event(event), CU_EVENT_WAIT_DEFAULT),
      "cuStreamWaitEvent");
}

Status Driver::ended(Event event, bool* out) {
  const CUresult state = functions_->cuEventQuery(cuda_event(event));
  *out = state == CUDA_SUCCESS;
  if (state == CUDA_ERROR_NOT_READY) return {};
  return functions_->check(state, "cuEventQuery");
}

Status Driver::wait_flags(Stream stream, Flags flags) {
  if (flags.empty()) return {};
  if (flags.size() > most_ranks) return {TUTTI_INTERNAL, "more flags than ranks to wait for"};
  const int device = current();
  const bool flush = device >= 0 && device_[size_t(device)].info.flushes_remote_writes;
  CUstreamBatchMemOpParams waits[most_ranks] = {};
  for (size_t i = 0; i < flags.size(); ++i) {
    auto& wait = waits[i].waitValue;
    wait.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    wait.address = flags[i];
    wait.value = flag_set | flag_over;
    // One flush, after the last wait, makes visible what other GPUs or a network card wrote before
    // the flags. A GPU that cannot flush is not written to by such a card unless it orders the
    // card's writes itself (Info::orders_remote_writes).
    const bool last = i + 1 == flags.size();
    wait.flags = CU_STREAM_WAIT_VALUE_AND | (flush && last ? CU_STREAM_WAIT_VALUE_FLUSH : 0);
  }
  return functions_->check(
      functions_->cuStreamBatchMemOp(cuda_stream(stream), unsigned(flags.size()), waits, 0),
      "cuStreamBatchMemOp");
}

Status Driver::write_words(std::span<const Address> words, uint32_t value) {
  constexpr size_t most = 128;  // of a batch
  Device* device = nullptr;
  TUTTI_TRY(current_device(&device));
  while (!words.empty()) {
    const auto some = words.first(std::min(words.size(), most));
    CUstreamBatchMemOpParams writes[most] = {};
    for (size_t i = 0; i < some.size(); ++i) {
      writes[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      writes[i].writeValue.address = some[i];
      writes[i].writeValue.value = value;
    }
    TUTTI_TRY(functions_->check(
        functions_->cuStreamBatchMemOp(device->urgent, unsigned(some.size()), writes, 0),
        "cuStreamBatchMemOp"));
    words = words.subspan(some.size());
  }
  return {};
}

Status Driver::begin_capture(Stream stream) {
  return functions_->check(
      functions_->cuStreamBeginCapture(cuda_stream(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      "cuStreamBeginCapture");
}

Status Driver::end_capture(Stream stream, Graph* out) {
  const Functions& f = *functions_;
  CUgraph graph = nullptr;
  TUTTI_TRY(f.check(f.cuStreamEndCapture(cuda_stream(stream), &graph), "cuStreamEndCapture"));
  CUgraphExec made = nullptr;
  const Status status = f.check(f.cuGraphInstantiate(&made, graph, 0), "cuGraphInstantiate");
  f.cuGraphDestroy(graph);
  *out = made;
  return status;
}

Status Driver::launch_graph(Graph graph, Stream stream) {
  return functions_->check(
      functions_->cuGraphLaunch(static_cast<CUgraphExec>(graph), cuda_stream(stream)),
      "cuGraphLaunch");
}

void Driver::release_graph(Graph graph) {
  if (graph != nullptr) functions_->cuGraphExecDestroy(static_cast<CUgraphExec>(graph));
}

Status Driver::Device::load_kernels(const Functions& f) {
  if (kernel_images().empty()) {
    return {TUTTI_UNSUPPORTED, "this build has no kernels: it was made without nvcc"};
  }
  std::vector<CUmodule> modules;
  for (const auto image : kernel_images()) {
    TUTTI_TRY(f.check(f.cuModuleLoadData(&modules.emplace_back(), image.data()), "cuModuleLoadData",
                      [] { return std::string("of tutti's kernels"); }));
  }
  for (const char* const name : kernel_names) {
    const auto what = [name] { return std::string("of ") + name; };
    CUfunction found = nullptr;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; i < modules.size() && result == CUDA_ERROR_NOT_FOUND; ++i) {
      result = f.cuModuleGetFunction(&found, modules[i], name);
    }
    TUTTI_TRY(f.check(result, "cuModuleGetFunction", what));
    // Without this the first launch might load the kernel (lazy loading), which waits for the GPU.
    if (f.load_function != nullptr) {
      TUTTI_TRY(f.check(f.load_function(found), "cuFuncLoad", what));
    }
    kernels.emplace(name, found);
  }
  return {};
}

Status Driver::kernel(std::string_view name, Kernel* out) {
  Device* here = nullptr;
  TUTTI_TRY(current_device(&here));
  Device& device = *here;
  const std::lock_guard lock(device.mutex);
  if (device.kernels.empty()) {
    if (Status status = device.load_kernels(*functions_); !status.ok()) {
      device.kernels.clear();
      return status;
    }
  }
  const auto found = device.kernels.find(name);
  if (found == device.kernels.end()) {
    return {TUTTI_INTERNAL, "there is no kernel " + std::string(name)};
  }
  *out = found->second;
  return {};
}

Status Driver::launch(Kernel kernel, uint32_t blocks, uint32_t threads, const void* arguments,
                      size_t bytes, Stream stream) {
  void* passed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<void*>(arguments),
                    CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  return functions_->check(
      functions_->cuLaunchKernel(static_cast<CUfunction>(kernel), blocks, 1, 1, threads, 1, 1, 0,
                                 cuda_stream(stream), nullptr, passed),
      "cuLaunchKernel");
}

}  // namespace tutti::device
