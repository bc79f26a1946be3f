#include "lib/gpu/pinned_copies.h"

#include <sched.h>

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/base/types.h"
#include "lib/plan/blocks.h"

namespace tutti {

namespace {

constexpr size_t alignment = 512;  // of what lies in one piece of memory

}  // namespace

Vectors vectors_of(const Call& call, uint32_t rank, uint32_t nranks) {
  const CallKey& key = call.key;
  const Goal goal(key.collective, nranks, uint32_t(key.root));
  const uint32_t size = uint32_t(dtype_size(key.dtype));
  Vectors all;
  all.input = call.input;
  all.output = call.output;
  all.gaps = key.lengths != 0;
  if (goal.blocks() == 1) {
    all.input_bytes = goal.has(rank, 0) ? key.count * size : 0;
    all.output_bytes = goal.gets(rank, 0) ? key.count * size : 0;
    return all;
  }
  plan::Extents extents;
  extents_of(goal, rank, call, size, &extents);
  for (uint32_t peer = 0; peer < nranks; ++peer) {
    const uint32_t given = goal.block(rank, peer), got = goal.block(peer, rank);
    const uint64_t given_bytes = extents.bytes(given, given + 1);
    const uint64_t got_bytes = extents.bytes(got, got + 1);
    if (given_bytes != 0 && goal.has(rank, given)) {
      all.input_bytes = std::max(all.input_bytes, extents.input(given) + given_bytes);
    }
    if (got_bytes != 0 && goal.gets(rank, got)) {
      all.output_bytes = std::max(all.output_bytes, extents.output(got) + got_bytes);
    }
  }
  return all;
}

// ---------------------------------------------------------------- PinnedCopies

PinnedCopies::~PinnedCopies() {
  const device::Driver::Current current(driver_, device_);
  for (const device::Event event : events_) {
    if (event != nullptr) driver_.release_event(event);
  }
  if (stream_ != nullptr) driver_.release_stream(stream_);
  if (memory_ != nullptr) driver_.release_pinned(memory_);
  for (void* const memory : outgrown_) driver_.release_pinned(memory);
}

Status PinnedCopies::look(const void* pointer, bool* on_device) const {
  const device::Pointed pointed = driver_.classify(pointer);
  *on_device = pointed.kind == TUTTI_MEMORY_DEVICE || pointed.kind == TUTTI_MEMORY_MANAGED;
  if (pointed.kind != TUTTI_MEMORY_DEVICE || pointed.device == device_) return {};
  return {TUTTI_INVALID, "a buffer lies in memory of GPU " + std::to_string(pointed.device) +
                             ", but the communicator is on GPU " + std::to_string(device_)};
}

size_t PinnedCopies::room_for(size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

Status PinnedCopies::memory(size_t bytes, std::byte** out) {
  if (bytes > bytes_) {
    const device::Driver::Current current(driver_, device_);
    TUTTI_TRY(Status(current.status()));
    bytes = std::max(bytes, 2 * bytes_);
    void* made = nullptr;
    device::Address unused = 0;
    TUTTI_TRY(driver_.allocate_pinned(bytes, &made, &unused));
    if (memory_ != nullptr) outgrown_.push_back(memory_);
    memory_ = static_cast<std::byte*>(made);
    bytes_ = bytes;
  }
  *out = memory_;
  return {};
}

Status PinnedCopies::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return {};
  const device::Driver::Current current(driver_, device_);
  TUTTI_TRY(Status(current.status()));
  return driver_.copy(to, from, bytes);
}

Status PinnedCopies::put(const Vectors& vectors, Call* call) {
  bool input_there = false, output_there = false;
  if (vectors.input_bytes != 0) TUTTI_TRY(look(vectors.input, &input_there));
  if (vectors.output_bytes != 0) TUTTI_TRY(look(vectors.output, &output_there));
  const std::byte* const input_end = vectors.input + vectors.input_bytes;
  const std::byte* const output_end = vectors.output + vectors.output_bytes;
  // In place: one copy of the range that both span, so that they overlap there as they do on the
  // GPU.
  const bool together =
      input_there && output_there && vectors.input < output_end && vectors.output < input_end;
  const std::byte* const begin = std::min<const std::byte*>(vectors.input, vectors.output);
  const std::byte* const end = std::max<const std::byte*>(input_end, output_end);
  const size_t input_room = together      ? size_t(end - begin)
                            : input_there ? room_for(vectors.input_bytes)
                                          : 0;
  const size_t output_room = output_there && !together ? vectors.output_bytes : 0;
  std::byte* host = nullptr;
  TUTTI_TRY(memory(std::max<size_t>(1, input_room + output_room), &host));
  std::byte* const host_input = together ? host + (vectors.input - begin) : host;
  std::byte* const host_output = together ? host + (vectors.output - begin) : host + input_room;
  back_bytes_ = 0;
  if (output_there) {
    if (vectors.gaps) TUTTI_TRY(copy(host_output, vectors.output, vectors.output_bytes));
    to_ = vectors.output;
    from_ = host_output;
    back_bytes_ = vectors.output_bytes;
    call->output = host_output;
  }
  if (input_there) {
    TUTTI_TRY(copy(host_input, vectors.input, vectors.input_bytes));
    call->input = host_input;
  }
  return {};
}

Status PinnedCopies::stage_out() { return copy(to_, from_, back_bytes_); }

Status PinnedCopies::open_stream() {
  if (stream_ != nullptr) return {};
  for (device::Event& event : events_) {
    if (event == nullptr) TUTTI_TRY(driver_.make_event(&event));
  }
  return driver_.make_stream(&stream_);
}

Status PinnedCopies::begin_copy(int number, void* to, const void* from, size_t bytes) {
  const device::Driver::Current current(driver_, device_);
  TUTTI_TRY(Status(current.status()));
  TUTTI_TRY(open_stream());
  TUTTI_TRY(driver_.copy_on(stream_, to, from, bytes));
  return driver_.record(events_[size_t(number)], stream_);
}

Status PinnedCopies::copy_ended(int number, bool* out) {
  const device::Driver::Current current(driver_, device_);
  TUTTI_TRY(Status(current.status()));
  return driver_.ended(events_[size_t(number)], out);
}

void PinnedCopies::settle() {
  constexpr int64_t most_ms = 2000;
  const uint64_t limit_ns = deadline_after_ms(most_ms);
  for (int number = 0; number < 2; ++number) {
    bool ended = events_[size_t(number)] == nullptr;
    while (!ended && now_ns() < limit_ns && copy_ended(number, &ended).ok()) sched_yield();
  }
}

}  // namespace tutti
