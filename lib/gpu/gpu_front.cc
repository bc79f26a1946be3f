#include "lib/gpu/gpu_front.h"

#include <sched.h>

#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/types.h"
#include "lib/progress/in_flight.h"

namespace tutti {

namespace {

// An error in this rank's arguments, found before anything is enqueued.
bool stays_with_caller(const Status& status) {
  return status.code() == TUTTI_INVALID || status.code() == TUTTI_UNSUPPORTED;
}

}  // namespace

Status GpuFront::open(Exchange& exchange, DeviceCalls::Setup setup, HostCalls& host,
                      const MakeHosts& make_hosts, uint64_t deadline_ns,
                      std::unique_ptr<GpuFront>* out) {
  std::unique_ptr<GpuFront> made(new GpuFront(host, exchange, setup.capabilities));
  setup.on_failure = [&host](const Status& why) { host.abort_link(why); };
  TUTTI_TRY(DeviceCalls::open(exchange, setup, deadline_ns, &made->calls_));
  DeviceCalls& calls = *made->calls_;
  made->pinned_ = std::make_unique<PinnedCopies>(calls.driver(), calls.device());
  if (!calls.reach_each_other()) {
    SliceHosts hosts;
    TUTTI_TRY(make_hosts(calls.driver(), calls.device(), &hosts));
    TUTTI_TRY(calls.open_proxy(exchange, std::move(hosts), deadline_ns));
  }
  *out = std::move(made);
  return {};
}

// ---------------------------------------------------------------- on streams

Status GpuFront::check_slices(const Call& call) {
  std::array<CallKey, 2> keys;
  TUTTI_TRY(calls_->proxy()->keys_of(call.key, host_.level_of(call.key), &keys));
  for (const CallKey& key : keys) {
    HostPlan plan;
    TUTTI_TRY(host_.plan_on_host(key, &plan));
    if (plan.premultiplies) {
      return {TUTTI_UNSUPPORTED,
              "pre-multiplied sums are not made in the order of a stream where the ranks' GPUs "
              "cannot reach each other"};
    }
  }
  return {};
}

tutti_status GpuFront::enqueue(const Call& call, void* stream) {
  if (host_.over()) {
    host_.adopt(calls_->failure());
    return host_.give_up({TUTTI_ABORTED, {}}, "on the GPU");
  }
  Status enqueued = calls_->proxy() != nullptr ? check_slices(call) : Status();
  if (enqueued.ok()) enqueued = calls_->enqueue(call, host_.level_of(call.key), stream);
  if (enqueued.ok()) {
    host_.begin_on_stream();
    return TUTTI_OK;
  }
  if (!stays_with_caller(enqueued)) {
    return host_.give_up(enqueued,
                         std::string("on the GPU, in ") + collective_name(call.key.collective));
  }
  return host_.refuse_on_stream(std::move(enqueued));
}

tutti_status GpuFront::status() {
  host_.adopt(calls_->failure());
  if (!host_.over()) return TUTTI_OK;
  return host_.give_up({TUTTI_ABORTED, {}}, "on the GPU");
}

// ---------------------------------------------------------------- blocking calls

Status GpuFront::wait_on_device(uint64_t timeout_ns) {
  constexpr uint32_t looks_per_clock = 64;
  const uint64_t deadline_ns = later_ns(now_ns(), timeout_ns);
  for (uint32_t look = 1;; ++look) {
    bool ended = false;
    TUTTI_TRY(calls_->own_ended(&ended));
    if (ended) return calls_->failure();  // one that failed ends, too
    if (look % looks_per_clock == 0) {
      TUTTI_TRY(calls_->failure());
      if (now_ns() >= deadline_ns) return calls_->describe_timeout();
    }
    if (in_flight::advance_all() != in_flight::Moved::freely) sched_yield();
  }
}

tutti_status GpuFront::run_on_device(const Call& call) {
  Status ended;
  if (host_.over()) {
    ended = {TUTTI_ABORTED, {}};
  } else {
    ended = calls_->enqueue_own(call, host_.level_of(call.key));
    if (stays_with_caller(ended)) return host_.fail(std::move(ended));
    if (ended.ok()) ended = wait_on_device(host_.timeout_ns(call.timeout_ms));
  }
  if (ended.ok()) return TUTTI_OK;
  const tutti_status failed =
      host_.give_up(std::move(ended), std::string("in ") + collective_name(call.key.collective));
  calls_->settle();  // until what was enqueued no longer accesses the caller's memory
  return failed;
}

// ---------------------------------------------------------------- where they run

Status GpuFront::where_it_lies(const Call& call, uint8_t* out) const {
  const Vectors vectors = vectors_of(call);
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

// One rank's buffers may lie on its GPU, another's on its host: the union over all ranks decides.
tutti_status GpuFront::agree_where(int64_t timeout_ms, uint8_t* lies) {
  if (nranks_ == 1) return TUTTI_OK;
  const uint8_t mine = *lies;
  Call call;
  call.key = {.count = 1, .dtype = TUTTI_UINT8, .op = TUTTI_BOR, .level = TUTTI_LEVEL_FAST};
  call.input = reinterpret_cast<const std::byte*>(&mine);
  call.output = reinterpret_cast<std::byte*>(lies);
  call.timeout_ms = timeout_ms;
  return host_.run_on_host(call);
}

tutti_status GpuFront::run(const Call& call) {
  const CallKey& key = call.key;
  const bool nothing = key.count == 0 && key.lengths == 0;
  if (key.collective == Collective::barrier || nothing) return host_.run_on_host(call);
  uint8_t lies = 0;
  if (Status looked = where_it_lies(call, &lies); !looked.ok())
    return host_.refuse(std::move(looked));
  const tutti_status agreed = agree_where(call.timeout_ms, &lies);
  if (agreed != TUTTI_OK) return agreed;
  if ((lies & lies_on_device) == 0) return host_.run_on_host(call);
  if (lies == lies_on_device && calls_->check(key, host_.level_of(key)).ok()) {
    return run_on_device(call);
  }
  Call piece;
  return goes_in_pieces(call, &piece) ? run_in_pieces(call, piece) : run_staged(call);
}

tutti_status GpuFront::run_staged(const Call& asked) {
  Call call = asked;
  Status put = pinned_->put(vectors_of(asked), &call);
  if (!put.ok()) {
    return host_.give_up(std::move(put), "between GPU and host");
  }
  const tutti_status ended = host_.run_on_host(call);
  if (ended != TUTTI_OK) return ended;
  Status back = pinned_->stage_out();
  if (back.ok()) return TUTTI_OK;
  return host_.give_up(std::move(back), "between GPU and host");
}

tutti_status GpuFront::run(std::span<const Message> asked, int64_t timeout_ms) {
  std::vector<Message> messages(asked.begin(), asked.end());
  std::vector<size_t> places(messages.size());
  std::vector<uint8_t> there(messages.size());
  size_t room = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const size_t bytes = messages[i].count * dtype_size(messages[i].dtype);
    bool on_device = false;
    if (bytes != 0) {
      if (Status looked = pinned_->look(messages[i].buffer, &on_device); !looked.ok()) {
        return host_.refuse(std::move(looked), asked);
      }
    }
    there[i] = on_device;
    places[i] = room;
    if (on_device) room += PinnedCopies::room_for(bytes);
  }
  if (room == 0) return host_.run_on_host(asked, timeout_ms);
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
  if (!copied.ok()) return host_.give_up(std::move(copied), "between GPU and host");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (there[i] != 0) messages[i].buffer = host + places[i];
  }
  const tutti_status ended = host_.run_on_host(messages, timeout_ms);
  if (ended != TUTTI_OK) return ended;
  copy(false);
  return copied.ok() ? TUTTI_OK : host_.give_up(std::move(copied), "between GPU and host");
}

Status GpuFront::check_on_host(std::initializer_list<const void*> buffers) const {
  for (const void* const buffer : buffers) {
    bool on_device = false;
    if (buffer != nullptr && buffer != TUTTI_IN_PLACE) {
      TUTTI_TRY(pinned_->look(buffer, &on_device));
    }
    if (!on_device) continue;
    return {TUTTI_INVALID, "a buffer lies on GPU " + std::to_string(calls_->device()) +
                               ", but this call takes memory of the host only"};
  }
  return {};
}

Status GpuFront::refuse(const Call& call) const {
  uint8_t lies = 0;
  TUTTI_TRY(where_it_lies(call, &lies));
  if ((lies & lies_on_device) == 0) return {};
  return {TUTTI_INVALID, std::string(collective_name(call.key.collective)) +
                             " that runs beside its caller takes memory of the host only; of a "
                             "GPU, call the _on form, which takes a stream"};
}

Status GpuFront::refuse(std::span<const Message> messages) const {
  for (const Message& message : messages) {
    bool on_device = false;
    if (message.count != 0) TUTTI_TRY(pinned_->look(message.buffer, &on_device));
    if (!on_device) continue;
    return {TUTTI_INVALID,
            "a message that runs beside its caller takes memory of the host only; of a GPU, call "
            "tutti_send() and tutti_recv()"};
  }
  return {};
}

}  // namespace tutti
