#include "lib/comm/staged.h"

#include <algorithm>

#include "lib/base/types.h"
#include "lib/comm/blocks.h"
#include "lib/comm/comm.h"
#include "lib/gpu/device_calls.h"

namespace tutti {

namespace {

constexpr size_t alignment = 512;  // of what lies in one piece of memory

size_t rounded(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

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
  for (uint32_t c = 0; c < goal.blocks(); ++c) {
    const uint64_t bytes = extents.begin[c + 1] - extents.begin[c];
    if (bytes == 0) continue;
    if (goal.has(rank, c)) all.input_bytes = std::max(all.input_bytes, extents.input[c] + bytes);
    if (goal.gets(rank, c)) {
      all.output_bytes = std::max(all.output_bytes, extents.output[c] + bytes);
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
  // In place: one copy of what both take, so that they lie to each other as they do there.
  const bool together =
      input_there && output_there && vectors.input < output_end && vectors.output < input_end;
  const std::byte* const begin = std::min<const std::byte*>(vectors.input, vectors.output);
  const std::byte* const end = std::max<const std::byte*>(input_end, output_end);
  const size_t input_room = together      ? size_t(end - begin)
                            : input_there ? rounded(vectors.input_bytes)
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

// ---------------------------------------------------------------- Communicator

Status Communicator::where_it_lies(const Call& call, uint8_t* out) const {
  const Vectors vectors =
      vectors_of(call, uint32_t(connection_.rank), uint32_t(connection_.nranks));
  *out = 0;
  const auto look = [&](const void* pointer, size_t bytes) -> Status {
    if (bytes == 0) return {};
    bool on_device = false;
    TUTTI_TRY(pinned_->look(pointer, &on_device));
    *out |= on_device ? lies_on_device : lies_on_host;
    return {};
  };
  TUTTI_TRY(look(vectors.input, vectors.input_bytes));
  return look(vectors.output, vectors.output_bytes);
}

// One rank's memory may lie on its GPU, another's in its host: what all have decides.
tutti_status Communicator::agree_where(int64_t timeout_ms, uint8_t* lies) {
  if (connection_.nranks == 1) return TUTTI_OK;
  const uint8_t mine = *lies;
  Call call;
  call.key = {.count = 1, .dtype = TUTTI_UINT8, .op = TUTTI_BOR, .level = TUTTI_LEVEL_FAST};
  call.input = reinterpret_cast<const std::byte*>(&mine);
  call.output = reinterpret_cast<std::byte*>(lies);
  call.timeout_ms = timeout_ms;
  return run_on_host(call);
}

tutti_status Communicator::run_anywhere(const Call& call) {
  const CallKey& key = call.key;
  const bool nothing = key.count == 0 && key.lengths == 0;
  if (key.collective == Collective::barrier || nothing) return run_on_host(call);
  uint8_t lies = 0;
  if (Status looked = where_it_lies(call, &lies); !looked.ok()) return fail(std::move(looked));
  const tutti_status agreed = agree_where(call.timeout_ms, &lies);
  if (agreed != TUTTI_OK) return agreed;
  if ((lies & lies_on_device) == 0) return run_on_host(call);
  if (lies == lies_on_device && device_->check(key, runner_.planner().level_of(key)).ok()) {
    return run_on_device(call);
  }
  Call piece;
  return goes_in_pieces(call, &piece) ? run_in_pieces(call, piece) : run_staged(call);
}

tutti_status Communicator::run_staged(const Call& asked) {
  Call call = asked;
  Status put = pinned_->put(
      vectors_of(asked, uint32_t(connection_.rank), uint32_t(connection_.nranks)), &call);
  if (!put.ok()) {
    failures_.break_down(std::move(put), "between GPU and host", 0);
    return fail(failures_.why());
  }
  const tutti_status ended = run_on_host(call);
  if (ended != TUTTI_OK) return ended;
  Status back = pinned_->stage_out();
  if (back.ok()) return TUTTI_OK;
  failures_.break_down(std::move(back), "between GPU and host", 0);
  return fail(failures_.why());
}

tutti_status Communicator::run_messages_staged(std::span<const Message> asked, int64_t timeout_ms) {
  std::vector<Message> messages(asked.begin(), asked.end());
  std::vector<size_t> places(messages.size());
  std::vector<uint8_t> there(messages.size());
  size_t room = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const size_t bytes = messages[i].count * dtype_size(messages[i].dtype);
    bool on_device = false;
    if (bytes != 0) {
      if (Status looked = pinned_->look(messages[i].buffer, &on_device); !looked.ok()) {
        return fail(std::move(looked));
      }
    }
    there[i] = on_device;
    places[i] = room;
    if (on_device) room += rounded(bytes);
  }
  if (room == 0) return run_messages(asked, timeout_ms);
  std::byte* host = nullptr;
  Status copied = pinned_->memory(room, &host);
  const auto copy = [&](bool sends) {
    for (size_t i = 0; i < messages.size() && copied.ok(); ++i) {
      if (there[i] == 0 || messages[i].sends != sends) continue;
      const size_t bytes = messages[i].count * dtype_size(messages[i].dtype);
      std::byte* const here = host + places[i];
      std::byte* const device = asked[i].buffer;
      copied = sends ? pinned_->copy(here, device, bytes) : pinned_->copy(device, here, bytes);
    }
  };
  if (copied.ok()) copy(true);
  if (!copied.ok()) return fail(std::move(copied));
  for (size_t i = 0; i < messages.size(); ++i) {
    if (there[i] != 0) messages[i].buffer = host + places[i];
  }
  const tutti_status ended = run_messages(messages, timeout_ms);
  if (ended != TUTTI_OK) return ended;
  copy(false);
  return copied.ok() ? TUTTI_OK : fail(std::move(copied));
}

Status Communicator::check_on_host(std::initializer_list<const void*> buffers) const {
  if (device_ == nullptr) return {};
  for (const void* const buffer : buffers) {
    bool on_device = false;
    if (buffer != nullptr && buffer != TUTTI_IN_PLACE) {
      TUTTI_TRY(pinned_->look(buffer, &on_device));
    }
    if (!on_device) continue;
    return {TUTTI_INVALID, "a buffer lies on GPU " + std::to_string(device_->device()) +
                               ", but this call takes memory of the host only"};
  }
  return {};
}

Status Communicator::refuse_device(const Operation& operation) const {
  const bool messages = !operation.messages.empty();
  uint8_t lies = 0;
  if (!messages) TUTTI_TRY(where_it_lies(operation.made.call, &lies));
  for (const Message& message : operation.messages) {
    bool on_device = false;
    if (message.count != 0) TUTTI_TRY(pinned_->look(message.buffer, &on_device));
    if (on_device) lies |= lies_on_device;
  }
  if ((lies & lies_on_device) == 0) return {};
  const std::string what =
      messages ? "a message" : collective_name(operation.made.call.key.collective);
  return {TUTTI_INVALID,
          what +
              " that runs beside its caller takes memory of the host only; of a "
              "GPU, call " +
              (messages ? "tutti_send() and tutti_recv()" : "the _on form, which takes a stream")};
}

}  // namespace tutti
