#include "trainer/device/side_stream.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

// As cuda.h has them; results are 0 on success.
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_disable_timing = 2;
constexpr int not_ready = 600;

void* symbol(const char* name) {
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

std::shared_ptr<void> new_event() {
  void* event = nullptr;
  must("cuEventCreate", &event, event_disable_timing);
  return {event, [](void* made) { driver("cuEventDestroy_v2", made); }};
}

}  // namespace

SideStream::SideStream() {
  must("cuCtxGetCurrent", &context_);
  if (!context_) throw Failure("no GPU is current in the thread that computes");
  must("cuStreamCreate", &stream_, stream_non_blocking);
  computed_ = new_event();
}

SideStream::~SideStream() {
  driver("cuStreamSynchronize", stream_);
  driver("cuStreamDestroy_v2", stream_);
}

// Autograd calls from its own threads.
void SideStream::make_current() const { must("cuCtxSetCurrent", context_); }

void SideStream::follow() const {
  make_current();
  must("cuEventRecord", computed_.get(), static_cast<void*>(nullptr));
  must("cuStreamWaitEvent", stream_, computed_.get(), 0U);
}

SideStream::Mark SideStream::mark() const {
  make_current();
  Mark mark;
  mark.event_ = new_event();
  must("cuEventRecord", mark.event_.get(), stream_);
  return mark;
}

bool SideStream::Mark::passed() const {
  const int result = driver("cuEventQuery", event_.get());
  if (result == not_ready) return false;
  if (result != 0) throw Failure(fmt::format("cuEventQuery failed with error {}", result));
  return true;
}

void SideStream::Mark::wait() const { must("cuEventSynchronize", event_.get()); }

}  // namespace tutti::train
