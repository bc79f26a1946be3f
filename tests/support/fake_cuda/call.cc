// The prologue of every call.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tests/support/fake_cuda/state.h"

namespace fake {

namespace {

// The error that FAKE_CUDA_FAIL asks for in this call.
CUresult wanted_error(const std::string& name) {
  const uint64_t number = ++state().calls[name];
  const char* const text = getenv("FAKE_CUDA_FAIL");
  if (text == nullptr) return CUDA_SUCCESS;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ',');) {
    std::istringstream parts(one);
    std::string which, at, code;
    std::getline(parts, which, ':');
    std::getline(parts, at, ':');
    std::getline(parts, code, ':');
    if (which != name || std::strtoull(at.c_str(), nullptr, 10) != number) continue;
    if (!code.empty()) return CUresult(std::atoi(code.c_str()));
    return name.find("Alloc") != std::string::npos ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
  }
  return CUDA_SUCCESS;
}

}  // namespace

State& state() {
  static State& all = *new State;  // never destroyed: streams may outlive all else
  return all;
}

// Both are in static TLS: TLS that the dynamic linker allocates later and frees with the thread
// looks like a race to ThreadSanitizer.
std::vector<Context*>& current_contexts() {
  [[gnu::tls_model("initial-exec")]] static thread_local std::vector<Context*> stack;
  return stack;
}

CUstreamCaptureMode& capture_mode() {
  [[gnu::tls_model("initial-exec")]] static thread_local CUstreamCaptureMode mode =
      CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

Call::Call(const char* name, Needs needs) : lock_(state().mutex), error_(check(name, needs)) {}

CUresult Call::check(const char* name, Needs needs) {
  State& all = state();
  if (needs != Needs::nothing) {
    // As with the real driver, nothing works in a child of a process that has initialised it.
    if (!all.initialised || all.pid != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
    if (needs == Needs::context && current_contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  }
  return wanted_error(name);
}

void Call::wait_for_context() {
  std::vector<Token> tokens;
  for (Stream* stream : context().streams) tokens.push_back(stream->queue->last());
  tokens.push_back(context().null_stream->queue->last());
  lock_.unlock();
  for (const Token& token : tokens) token.wait();
  lock_.lock();
}

Context& context() { return *current_contexts().back(); }

uint64_t setting(const char* variable, uint64_t otherwise) {
  const char* const text = getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// For calls that the real driver forbids to this thread while a capture is in progress; they
// invalidate the capture.
CUresult unsafe_while_capturing() {
  if (capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  for (Capture* capture : state().captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool global = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                        capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (global || (own && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)) {
      capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace fake

extern "C" void fake_cuda_counts(FakeCudaCounts* out) {
  const std::lock_guard lock(fake::state().mutex);
  *out = fake::state().counts;
}
