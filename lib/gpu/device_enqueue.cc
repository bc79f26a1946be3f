// How a call on memory of the GPU is prepared and enqueued.
#include <algorithm>

#include "algorithms/registry.h"
#include "lib/base/types.h"
#include "lib/gpu/device_calls.h"
#include "lib/plan/blocks.h"
#include "lib/plan/lower.h"
#include "lib/schedule/levels.h"

namespace tutti {

using device::Address;
using device::address_of;
using device::Driver;
using device::pointer_to;
using device::Stream;

namespace {

// The fields of an entry hold what is needed to describe the signature.
uint32_t packed(const CallSignature& signature) {
  return uint32_t(signature.collective) | uint32_t(signature.level) << 8 |
         uint32_t(signature.algorithm) << 16;
}

}  // namespace

Status DeviceCalls::check(const CallKey& key, tutti_level level) const {
  if (arena_ == nullptr) return {TUTTI_UNSUPPORTED, why_not_};
  const std::string why = why_no_kernel(key, level);
  return why.empty() ? Status() : Status(TUTTI_UNSUPPORTED, why);
}

Status DeviceCalls::find(const CallKey& key, tutti_level level, StreamPlan** out) {
  const uint64_t words[] = {key.count, uint64_t(key.collective) | uint64_t(key.dtype) << 8 |
                                           uint64_t(key.op) << 16 | uint64_t(key.root) << 24};
  std::unique_ptr<StreamPlan>& place = prepared_[hash_of(words) >> 58];
  if (place == nullptr || !(place->key == key) || place->level != level) {
    auto made = std::make_unique<StreamPlan>();
    TUTTI_TRY(prepare(key, level, made.get()));
    place = std::move(made);
  }
  *out = place.get();
  return {};
}

Status DeviceCalls::prepare(const CallKey& key, tutti_level level, StreamPlan* out) {
  TUTTI_TRY(choose_on_stream(key, setup_.capabilities, level, &out->choice));
  const StreamChoice& choice = out->choice;
  out->key = key;
  out->level = level;
  // The caller's text may be gone when the key is looked at again.
  if (!key.algorithm.empty()) out->key.algorithm = choice.algorithm->name;
  plan::StreamCall& call = out->call;
  call.collective = key.collective;
  call.root = uint32_t(key.root);
  call.count = key.collective == Collective::barrier ? 0 : key.count;
  call.element_size = uint32_t(dtype_size(key.dtype));
  call.averages = choice.averages;
  call.one_shot = choice.path == StreamPath::one_shot;
  call.one_piece = key.symmetric || arena_->one_process();
  if (!choice.kernel.empty()) TUTTI_TRY(driver_.kernel(choice.kernel, &call.combine));
  if (reduces(key.collective) && gives_truth(key.op, key.dtype)) {
    TUTTI_TRY(driver_.kernel(combine_kernel(key.dtype, TUTTI_LOR, TUTTI_LEVEL_FAST), &call.truth));
  }
  CallSignature signature;
  signature.count = key.count;
  signature.root = key.root;
  signature.collective = key.collective;
  signature.set_types(key.dtype, key.op);
  signature.level = uint8_t(reduces(key.collective) ? level : TUTTI_LEVEL_FAST);
  signature.algorithm =
      choice.algorithm != nullptr ? uint16_t(choice.algorithm - algorithms().data()) : 0xffff;
  const uint64_t words[] = {signature_hash(signature), uint64_t(choice.path),
                            uint64_t(call.one_piece)};
  call.entry.digest = hash_of(words);
  call.entry.count = key.count;
  call.entry.collective = packed(signature);
  call.entry.dtype = signature.dtype;
  call.entry.op = signature.op;
  call.entry.root = uint32_t(key.root);
  return choice.path == StreamPath::lanes ? prepare_plan(key, out) : Status();
}

Status DeviceCalls::prepare_plan(const CallKey& key, StreamPlan* out) const {
  const Capabilities& capabilities = setup_.capabilities;
  const StreamChoice& choice = out->choice;
  const schedule::Shape shape{.rank = arena_->rank(),
                              .nranks = capabilities.nranks,
                              .root = uint32_t(key.root),
                              .radix = group_size(capabilities),
                              .bracketing = schedule::bracketing_of(choice.level)};
  out->plan = plan::lower(*choice.algorithm, shape);
  out->binding = std::make_unique<plan::Binding>(out->plan);
  const Goal goal(choice.algorithm->collective, capabilities.nranks, uint32_t(key.root));
  if (goal.blocks() == 1) {
    out->binding->bind(key.count, out->call.element_size);
    return {};
  }
  Call call;
  call.key = key;
  plan::Extents extents;
  extents_of(goal, arena_->rank(), call, out->call.element_size, &extents);
  out->binding->bind(extents);
  return {};
}

Status DeviceCalls::check_buffers(const Call& call) const {
  const CallKey& key = call.key;
  if (key.count == 0 || key.collective == Collective::barrier) return {};
  const Goal goal(key.collective, setup_.capabilities.nranks, uint32_t(key.root));
  const uint32_t self = rank_;
  const auto check = [&](const void* buffer, const char* name) -> Status {
    const device::Pointed pointed = driver_.classify(buffer);
    const bool there = pointed.kind == TUTTI_MEMORY_DEVICE || pointed.kind == TUTTI_MEMORY_MANAGED;
    if (there && (pointed.device == setup_.device || pointed.kind == TUTTI_MEMORY_MANAGED)) {
      return {};
    }
    return {TUTTI_INVALID,
            std::string("the ") + name + " lies in memory of " +
                (there ? "GPU " + std::to_string(pointed.device) : std::string("the host")) +
                ", but the communicator is on GPU " + std::to_string(setup_.device),
            int(self)};
  };
  if (has_one_buffer(key.collective)) return check(call.output, "buffer");
  if (goal.has_input(self)) TUTTI_TRY(check(call.input, "send buffer"));
  return goal.has_output(self) ? check(call.output, "receive buffer") : Status();
}

Status DeviceCalls::follow_last(Stream stream, uint64_t capture) {
  if (capture == 0) return any_ ? driver_.wait_event(stream, last_event_) : Status();
  return capture == last_capture_ ? driver_.wait_event(stream, captured_event_) : Status();
}

Status DeviceCalls::remember(Stream stream, uint64_t capture) {
  if (capture == 0) {
    any_ = true;
    return driver_.record(last_event_, stream);
  }
  last_capture_ = capture;
  return driver_.record(captured_event_, stream);
}

Status DeviceCalls::check_stream(Stream stream) const {
  const bool shared = proxy_ != nullptr ? proxy_->shares_context() : arena_->shares_context();
  if (!device::is_null_stream(stream) || !shared) return {};
  return {TUTTI_INVALID,
          "threads that are ranks on one GPU share its null stream and would wait for each "
          "other: each needs a stream of its own"};
}

Status DeviceCalls::enqueue_by_host(const Call& asked, tutti_level level, Stream stream) {
  TUTTI_TRY(check_buffers(asked));
  TUTTI_TRY(check_stream(stream));
  uint64_t capture = 0;
  TUTTI_TRY(driver_.capture_of(stream, &capture));
  TUTTI_TRY(follow_last(stream, capture));
  const int64_t timeout_ms = asked.timeout_ms > 0 ? asked.timeout_ms : setup_.timeout_ms;
  TUTTI_TRY(proxy_->enqueue(asked, level, timeout_ms, stream));
  return remember(stream, capture);
}

Status DeviceCalls::enqueue(const Call& asked, tutti_level level, Stream stream) {
  if (arena_ == nullptr && proxy_ == nullptr) return {TUTTI_UNSUPPORTED, why_not_};
  const Driver::Current current(driver_, setup_.device);
  TUTTI_TRY(Status(current.status()));
  if (proxy_ != nullptr) return enqueue_by_host(asked, level, stream);
  StreamPlan* stream_plan = nullptr;
  TUTTI_TRY(find(asked.key, level, &stream_plan));
  TUTTI_TRY(check_buffers(asked));
  TUTTI_TRY(check_stream(stream));
  uint64_t capture = 0;
  TUTTI_TRY(driver_.capture_of(stream, &capture));
  plan::StreamCall call = stream_plan->call;
  call.input = address_of(asked.input);
  call.output = address_of(asked.output);
  call.timeout_ms = uint64_t(asked.timeout_ms > 0 ? asked.timeout_ms : setup_.timeout_ms);
  if (call.collective == Collective::barrier) call.input = call.output = 0;
  TUTTI_TRY(follow_last(stream, capture));
  if (stream_plan->choice.path == StreamPath::lanes && arena_->nranks() > 1) {
    TUTTI_TRY(enqueue_lanes(*stream_plan, asked, call, capture, stream));
  } else {
    TUTTI_TRY(plan::OnStream(*kernels_).enqueue(call, stream));
  }
  return remember(stream, capture);
}

Status DeviceCalls::enqueue_lanes(const StreamPlan& stream_plan, const Call& asked,
                                  plan::StreamCall call, uint64_t capture, Stream stream) {
  const bool barrier = call.collective == Collective::barrier;
  const uint64_t scratch = (stream_plan.binding->scratch_bytes() + 511) / 512 * 512;
  const uint64_t aside = barrier ? 1 : asked.aside_count * call.element_size;
  TUTTI_TRY(grow_scratch(scratch + aside, capture));
  const Address memory = scratch_.empty() ? 0 : scratch_.back();
  void* const beside = pointer_to(memory + scratch);
  if (barrier) {  // an allreduce of one byte, whatever it holds
    call.collective = Collective::allreduce;
    call.input = call.output = memory + scratch;
  }
  if (asked.input_aside && aside != 0) {
    TUTTI_TRY(driver_.copy_on(stream, beside, asked.input, aside));
    call.input = memory + scratch;
  }
  if (asked.output_aside) call.output = memory + scratch;
  TUTTI_TRY(lanes_->enqueue(call, *stream_plan.binding, memory, stream));
  if (asked.output_aside && aside != 0) {
    TUTTI_TRY(driver_.copy_on(stream, asked.output, beside, aside));
  }
  return {};
}

Status DeviceCalls::grow_scratch(uint64_t bytes, uint64_t capture) {
  if (bytes <= scratch_bytes_) return {};
  if (capture != 0) {
    return {TUTTI_UNSUPPORTED,
            "this algorithm needs more memory to work in, which cannot be had during a capture: "
            "make a call like this once before"};
  }
  const uint64_t wanted = std::max(bytes, 2 * scratch_bytes_);
  Address made = 0;
  TUTTI_TRY(driver_.allocate(wanted, &made));
  scratch_.push_back(made);
  scratch_bytes_ = wanted;
  return {};
}

Status DeviceCalls::enqueue_own(const Call& call, tutti_level level) {
  const Driver::Current current(driver_, setup_.device);
  TUTTI_TRY(Status(current.status()));
  Stream stream = nullptr;
  TUTTI_TRY(own_stream(&stream));
  TUTTI_TRY(enqueue(call, level, stream));
  return driver_.record(own_event_, stream);
}

Status DeviceCalls::own_ended(bool* out) {
  const Driver::Current current(driver_, setup_.device);
  TUTTI_TRY(Status(current.status()));
  return driver_.ended(own_event_, out);
}

}  // namespace tutti
