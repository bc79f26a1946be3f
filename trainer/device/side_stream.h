// A stream of the current GPU beside the null stream, in which LibTorch computes: collectives run
// in it while backward continues. Made with the CUDA driver, loaded at run time, because LibTorch's
// own streams cannot be passed to a library without CUDA's headers.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

#include "trainer/common/error.h"

namespace tutti::train {
namespace cuda {

// As cuda.h has them; results are 0 on success.
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_disable_timing = 2;
constexpr int not_ready = 600;

inline void* symbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) throw Failure("the GPU's driver libcuda.so.1 cannot be loaded");
  if (void* const found = dlsym(library, name)) return found;
  throw Failure(fmt::format("the GPU's driver has no {}", name));
}

// Calls a function of the driver, whose parameters have exactly the types of the arguments.
template <class... A>
int driver(const char* name, A... arguments) {
  return reinterpret_cast<int (*)(A...)>(symbol(name))(arguments...);
}

template <class... A>
void must(const char* name, A... arguments) {
  if (const int result = driver(name, arguments...); result != 0)
    throw Failure(fmt::format("{} failed with the driver's error {}", name, result));
}

inline std::shared_ptr<void> new_event() {
  void* event = nullptr;
  must("cuEventCreate", &event, event_disable_timing);
  return {event, [](void* made) { driver("cuEventDestroy_v2", made); }};
}

}  // namespace cuda

class SideStream {
 public:
  // The GPU is current in this thread, and has been used. Throws Failure.
  SideStream() {
    cuda::must("cuCtxGetCurrent", &context_);
    if (!context_) throw Failure("no GPU is current in the thread that computes");
    cuda::must("cuStreamCreate", &stream_, cuda::stream_non_blocking);
    computed_ = cuda::new_event();
  }
  // Waits until the stream is empty.
  ~SideStream() {
    cuda::driver("cuStreamSynchronize", stream_);
    cuda::driver("cuStreamDestroy_v2", stream_);
  }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  void* handle() const { return stream_; }  // a CUstream
  // Orders later work in this stream after all that LibTorch has enqueued so far. Any thread.
  void follow() const {
    make_current();
    cuda::must("cuEventRecord", computed_.get(), static_cast<void*>(nullptr));
    cuda::must("cuStreamWaitEvent", stream_, computed_.get(), 0U);
  }

  // A point in the stream (an event).
  class Mark {
   public:
    Mark() = default;
    bool passed() const {
      const int result = cuda::driver("cuEventQuery", event_.get());
      if (result == cuda::not_ready) return false;
      if (result != 0) throw Failure(fmt::format("cuEventQuery failed with error {}", result));
      return true;
    }
    void wait() const { cuda::must("cuEventSynchronize", event_.get()); }

   private:
    friend class SideStream;
    std::shared_ptr<void> event_;
  };
  // A mark after all that the stream has so far.
  Mark mark() const {
    make_current();
    Mark mark;
    mark.event_ = cuda::new_event();
    cuda::must("cuEventRecord", mark.event_.get(), stream_);
    return mark;
  }

 private:
  // Autograd calls from its own threads.
  void make_current() const { cuda::must("cuCtxSetCurrent", context_); }
  void* context_ = nullptr;
  void* stream_ = nullptr;
  std::shared_ptr<void> computed_;  // the event that the stream last waited for
};

}  // namespace tutti::train
