// Streams, events, copies in streams and waits for flags.
#include <atomic>
#include <chrono>
#include <cstring>

#include "tests/support/fake_cuda/state.h"

namespace fake {

namespace {

// Polls in a row before a wait sleeps: processes that share a core must yield it to each other.
constexpr int looks = 20;
constexpr std::chrono::microseconds pause_between(30);

uint32_t load(uintptr_t address) {
  return std::atomic_ref(*reinterpret_cast<uint32_t*>(address)).load();
}

bool satisfied(uint32_t found, uint32_t value, unsigned int flags) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return found == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (found & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return ~(found | value) != 0;
    default:
      return int32_t(found - value) >= 0;
  }
}

void perform(const CUstreamBatchMemOpParams& operation) {
  if (operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
    std::atomic_ref(*reinterpret_cast<uint32_t*>(operation.writeValue.address))
        .store(operation.writeValue.value);
    return;
  }
  const auto& wait = operation.waitValue;
  for (int look = 0; !satisfied(load(wait.address), wait.value, wait.flags); ++look) {
    if (look < looks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause_between);
    }
  }
}

// A copy engine moves short, aligned data in words: a flag that others poll is never torn.
void copy(uintptr_t to, uintptr_t from, size_t bytes) {
  constexpr size_t few = 4096;
  if (bytes > few || (to | from | bytes) % sizeof(uint32_t) != 0) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
    std::atomic_ref(*reinterpret_cast<uint32_t*>(to + at)).store(load(from + at));
  }
}

CUresult check_operation(const CUstreamBatchMemOpParams& operation) {
  if (operation.operation != CU_STREAM_MEM_OP_WAIT_VALUE_32 &&
      operation.operation != CU_STREAM_MEM_OP_WRITE_VALUE_32) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const uintptr_t address = operation.waitValue.address;
  const Allocation* const found = find(address);
  const bool allowed = found != nullptr && found->kind != Allocation::Kind::managed;
  return allowed && address % 4 == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult make(CUstream* out, bool blocking) {
  auto* const made = new Stream;
  made->context = &context();
  made->blocking = blocking;
  made->queue = std::make_shared<Queue>();
  made->context->streams.insert(made);
  ++state().counts.created;
  *out = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}

Event* event_of(CUevent handle) {
  auto* const event = reinterpret_cast<Event*>(handle);
  return state().events.contains(event) ? event : nullptr;
}

// What the real driver forbids also invalidates the capture.
CUresult forbidden(Capture* capture, CUresult error) {
  if (capture != nullptr) capture->invalid = true;
  return error;
}

// Joins the stream to the capture of an event.
CUresult join(Stream& stream, const Event& event) {
  if (stream.capture != nullptr && stream.capture != event.capture) {
    event.capture->invalid = true;
    return forbidden(stream.capture.get(), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (!state().captures.contains(event.capture.get())) return CUDA_ERROR_CAPTURED_EVENT;
  if (event.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream.capture == nullptr) {
    if (&stream == stream.context->null_stream.get()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    stream.capture = event.capture;
    stream.lane = stream.capture->streams.size();
    stream.capture->streams.push_back(&stream);
    stream.ends.clear();
  }
  stream.ends.insert(stream.ends.end(), event.ends.begin(), event.ends.end());
  return CUDA_SUCCESS;
}

}  // namespace

bool blocked_by_capture(const Stream& stream) {
  if (&stream != stream.context->null_stream.get()) return false;
  for (const Stream* other : stream.context->streams) {
    if (other->blocking && other->capture != nullptr) return true;
  }
  return false;
}

Stream* stream_of(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return context().null_stream.get();
  auto* const stream = reinterpret_cast<Stream*>(handle);
  return context().streams.contains(stream) ? stream : nullptr;
}

std::vector<Token> before(Stream& stream) {
  std::vector<Token> after;
  if (&stream == stream.context->null_stream.get()) {
    for (const Stream* other : stream.context->streams) {
      if (other->blocking) after.push_back(other->queue->last());
    }
  } else if (stream.blocking) {
    after.push_back(stream.context->null_stream->queue->last());
  }
  return after;
}

CUresult enqueue(Stream& stream, Work work) {
  if (blocked_by_capture(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (stream.capture == nullptr) {
    stream.queue->push(std::move(work), before(stream));
    return CUDA_SUCCESS;
  }
  if (stream.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto& nodes = stream.capture->nodes;
  nodes.push_back({std::move(work), stream.ends, stream.lane});
  stream.ends = {nodes.size() - 1};
  return CUDA_SUCCESS;
}

}  // namespace fake

using fake::Call;
using fake::state;

CUresult cuCtxGetStreamPriorityRange(int* least, int* most) {
  const Call call("cuCtxGetStreamPriorityRange");
  if (call.error() != CUDA_SUCCESS) return call.error();
  *least = 0;
  *most = -5;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* out, unsigned int flags) {
  const Call call("cuStreamCreate");
  if (call.error() != CUDA_SUCCESS) return call.error();
  return fake::make(out, (flags & CU_STREAM_NON_BLOCKING) == 0);
}

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int) {
  const Call call("cuStreamCreateWithPriority");
  if (call.error() != CUDA_SUCCESS) return call.error();
  return fake::make(out, (flags & CU_STREAM_NON_BLOCKING) == 0);
}

CUresult cuStreamDestroy(CUstream handle) {
  const Call call("cuStreamDestroy");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr || handle == nullptr || stream->capture != nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  stream->context->streams.erase(stream);
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  Call call("cuStreamSynchronize");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    return fake::forbidden(stream->capture.get(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  if (const CUresult unsafe = fake::unsafe_while_capturing(); unsafe != CUDA_SUCCESS) return unsafe;
  ++state().counts.synchronisations;
  std::vector<fake::Token> tokens = fake::before(*stream);
  tokens.push_back(stream->queue->last());
  call.unlock();
  for (const fake::Token& token : tokens) token.wait();
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle) {
  const Call call("cuStreamQuery");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    return fake::forbidden(stream->capture.get(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return stream->queue->last().done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventCreate(CUevent* out, unsigned int) {
  const Call call("cuEventCreate");
  if (call.error() != CUDA_SUCCESS) return call.error();
  auto* const made = new fake::Event;
  state().events.insert(made);
  ++state().counts.created;
  *out = reinterpret_cast<CUevent>(made);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
  const Call call("cuEventDestroy");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Event* const event = fake::event_of(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  state().events.erase(event);
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  const Call call("cuEventRecord");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Event* const event = fake::event_of(handle);
  fake::Stream* const stream = fake::stream_of(stream_handle);
  if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *event = {{}, stream->capture, stream->ends};
    return CUDA_SUCCESS;
  }
  if (const CUresult error = fake::enqueue(*stream, {}); error != CUDA_SUCCESS) return error;
  *event = {stream->queue->last(), nullptr, {}};
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  const Call call("cuEventQuery");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Event* const event = fake::event_of(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult unsafe = fake::unsafe_while_capturing(); unsafe != CUDA_SUCCESS) return unsafe;
  if (event->capture != nullptr) {
    return fake::forbidden(event->capture.get(), CUDA_ERROR_CAPTURED_EVENT);
  }
  return event->token.done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int) {
  const Call call("cuStreamWaitEvent");
  if (call.error() != CUDA_SUCCESS) return call.error();
  const fake::Event* const event = fake::event_of(handle);
  fake::Stream* const stream = fake::stream_of(stream_handle);
  if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr) return fake::join(*stream, *event);
  if (stream->capture != nullptr) {
    return fake::forbidden(stream->capture.get(), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  std::vector<fake::Token> after = fake::before(*stream);
  after.push_back(event->token);
  stream->queue->push({}, std::move(after));
  return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp(CUstream handle, unsigned int count,
                            CUstreamBatchMemOpParams* operations, unsigned int flags) {
  const Call call("cuStreamBatchMemOp");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == 0 || count >= 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUstreamBatchMemOpParams> all(operations, operations + count);
  for (const CUstreamBatchMemOpParams& operation : all) {
    const CUresult error = fake::check_operation(operation);
    if (error != CUDA_SUCCESS) return error;
  }
  ++state().counts.waits;
  return fake::enqueue(*stream, [all = std::move(all)] {
    for (const CUstreamBatchMemOpParams& operation : all) fake::perform(operation);
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  Call call("cuMemcpyAsync");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (fake::check_range(to, bytes) != CUDA_SUCCESS ||
      fake::check_range(from, bytes) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++state().counts.copies;
  const CUresult error = fake::enqueue(*stream, [=] { fake::copy(to, from, bytes); });
  if (error != CUDA_SUCCESS || stream->capture != nullptr) return error;
  if (!fake::is_pageable(to) && !fake::is_pageable(from)) return CUDA_SUCCESS;
  // The program may use the memory as soon as this returns.
  ++state().counts.synchronisations;
  const fake::Token token = stream->queue->last();
  call.unlock();
  token.wait();
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream handle) {
  const Call call("cuMemsetD8Async");
  if (call.error() != CUDA_SUCCESS) return call.error();
  fake::Stream* const stream = fake::stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (fake::is_pageable(to) || fake::check_range(to, bytes) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return fake::enqueue(*stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}
