#include "trainer/device/side_stream.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

// As cuda.h declares them; results are 0 on success.
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_disable_timing = 2;
constexpr int not_ready = 600;

struct Driver {
  int (*context_get)(void** context);
  int (*context_set)(void* context);
  int (*stream_create)(void** stream, unsigned flags);
  int (*stream_destroy)(void* stream);
  int (*stream_wait_event)(void* stream, void* event, unsigned flags);
  int (*stream_synchronize)(void* stream);
  int (*event_create)(void** event, unsigned flags);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*event_query)(void* event);
  int (*event_synchronize)(void* event);
};

template <class Function>
void find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
  if (!out) throw Failure(fmt::format("the GPU's driver has no {}", name));
}

const Driver& driver() {
  static const Driver loaded = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) throw Failure(fmt::format("the GPU's driver cannot be loaded: {}", dlerror()));
    Driver d{};
    find(library, "cuCtxGetCurrent", d.context_get);
    find(library, "cuCtxSetCurrent", d.context_set);
    find(library, "cuStreamCreate", d.stream_create);
    find(library, "cuStreamDestroy_v2", d.stream_destroy);
    find(library, "cuStreamWaitEvent", d.stream_wait_event);
    find(library, "cuStreamSynchronize", d.stream_synchronize);
    find(library, "cuEventCreate", d.event_create);
    find(library, "cuEventDestroy_v2", d.event_destroy);
    find(library, "cuEventRecord", d.event_record);
    find(library, "cuEventQuery", d.event_query);
    find(library, "cuEventSynchronize", d.event_synchronize);
    return d;
  }();
  return loaded;
}

void check(int result, const char* what) {
  if (result != 0) throw Failure(fmt::format("{} failed with the driver's error {}", what, result));
}

std::shared_ptr<void> new_event() {
  void* event = nullptr;
  check(driver().event_create(&event, event_disable_timing), "cuEventCreate");
  return {event, [](void* made) { driver().event_destroy(made); }};
}

}  // namespace

struct SideStream::Inside {
  void* context = nullptr;
  void* stream = nullptr;
  std::shared_ptr<void> computed;  // the event that the stream last waited for

  // Autograd calls from its own threads.
  void make_current() const { check(driver().context_set(context), "cuCtxSetCurrent"); }
};

SideStream::SideStream() : inside_(std::make_unique<Inside>()) {
  Inside& in = *inside_;
  check(driver().context_get(&in.context), "cuCtxGetCurrent");
  if (!in.context) throw Failure("no GPU is current in the thread that computes");
  check(driver().stream_create(&in.stream, stream_non_blocking), "cuStreamCreate");
  in.computed = new_event();
}

SideStream::~SideStream() {
  driver().stream_synchronize(inside_->stream);
  driver().stream_destroy(inside_->stream);
}

void* SideStream::handle() const { return inside_->stream; }

void SideStream::follow() const {
  const Inside& in = *inside_;
  in.make_current();
  check(driver().event_record(in.computed.get(), nullptr), "cuEventRecord");
  check(driver().stream_wait_event(in.stream, in.computed.get(), 0), "cuStreamWaitEvent");
}

SideStream::Mark SideStream::mark() const {
  inside_->make_current();
  Mark mark;
  mark.event_ = new_event();
  check(driver().event_record(mark.event_.get(), inside_->stream), "cuEventRecord");
  return mark;
}

bool SideStream::Mark::passed() const {
  const int result = driver().event_query(event_.get());
  if (result == not_ready) return false;
  check(result, "cuEventQuery");
  return true;
}

void SideStream::Mark::wait() const {
  check(driver().event_synchronize(event_.get()), "cuEventSynchronize");
}

}  // namespace tutti::train
