// A communicator's calls on memory of its GPU: those that are enqueued, and blocking ones.
#include <sched.h>

#include <mutex>

#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/comm/group_exchange.h"
#include "lib/comm/staged.h"
#include "lib/control/agree.h"
#include "lib/gpu/device_calls.h"
#include "transports/ucx/ucx.h"

namespace tutti {

namespace {

Status no_device() { return {TUTTI_UNSUPPORTED, "the communicator was made without a device"}; }

// What is wrong with one rank's arguments, and known before anything is enqueued.
bool stays_with_caller(const Status& status) {
  return status.code() == TUTTI_INVALID || status.code() == TUTTI_UNSUPPORTED;
}

}  // namespace

Status Communicator::open_device(Exchange& exchange, uint64_t deadline_ns) {
  DeviceCalls::Setup setup;
  setup.device = connection_.settings.device;
  setup.capabilities = connection_.capabilities;
  setup.timeout_ms = connection_.settings.timeout_ms;
  setup.through_host = connection_.settings.devices_through_host;
  setup.on_failure = [this](const Status& why) { failures_.abort_link(why); };
  TUTTI_TRY(DeviceCalls::open(exchange, setup, deadline_ns, &device_));
  failures_.watch(device_.get());
  connection_.settings.device =
      device_->device();  // of communicators made out of this one, in any thread
  pinned_ = std::make_unique<PinnedCopies>(device_->driver(), device_->device());
  return device_->reach_each_other() ? Status() : open_proxy(exchange, deadline_ns);
}

// The host's own calls are on another communicator than those that it makes for GPUs, whose turn
// comes in the order of streams.
Status Communicator::open_proxy(Exchange& exchange, uint64_t deadline_ns) {
  CommSettings settings = connection_.settings;
  settings.device = CommSettings::no_device;
  settings.progress_thread = false;
  DeviceProxy::Hosts hosts;
  TUTTI_TRY(
      create(std::make_unique<GroupExchange>(*this, connection_.key), settings, &hosts.staged));
  Status direct = agree(exchange, check_direct(*hosts.staged), deadline_ns);
  if (direct.ok()) {
    const device::Driver::Current current(device_->driver(), device_->device());
    settings.transports = {"ucx"};
    settings.transports_named = true;
    const bool sure = settings.ucx_device == Use::automatic;
    settings.memory = sure ? LinkMemory::gpu : LinkMemory::unknown;
    TUTTI_TRY(
        create(std::make_unique<GroupExchange>(*this, connection_.key), settings, &hosts.direct));
  } else if (direct.code() != TUTTI_UNSUPPORTED) {
    return direct;
  }
  if (logging()) {
    log(TUTTI_LOG_INFO,
        direct.ok() ? "calls that only move data go from GPU to GPU by UCX, others through the host"
                    : "calls on memory of GPUs go through the host: " + direct.text());
  }
  return device_->open_proxy(exchange, std::move(hosts), deadline_ns);
}

// UNSUPPORTED, with why, unless UCX can move memory of this rank's GPU to and from all others.
// Every rank has another one over UCX then, so any two can be joined by it.
Status Communicator::check_direct(const Communicator& staged) const {
  const auto because = [](const char* why) { return Status(TUTTI_UNSUPPORTED, why); };
  if (connection_.settings.ucx_device == Use::never) return because("TUTTI_UCX_DEVICE is never");
  if (connection_.settings.check_results) return because("TUTTI_CHECK has the host read results");
  if (std::string_view(staged.transport()).find("ucx") == std::string_view::npos) {
    return because("no other rank is joined by UCX");
  }
  device::Info gpu;
  TUTTI_TRY(device_->driver().info(device_->device(), &gpu));
  if (!gpu.flushes_remote_writes && !gpu.orders_remote_writes) {
    return because("the GPU neither flushes nor orders what a network writes");
  }
  if (connection_.settings.ucx_device == Use::always) return {};
  if (connection_.settings.devices_through_host) return because("TUTTI_DEVICE_PATH is host");
  return ucx_moves_gpu_memory();
}

Status Communicator::check_slices(const Call& call) {
  std::array<CallKey, 2> keys;
  TUTTI_TRY(device_->proxy()->keys_of(call.key, runner_.planner().level_of(call.key), &keys));
  const std::lock_guard guard(queue_.lock());  // what runs looks for plans, too
  for (const CallKey& key : keys) {
    const CallCache::Entry* const found = runner_.planner().find(key);
    if (found == nullptr) return failures_.last_error();
    if ((*found)->premultiplies) {
      return {TUTTI_UNSUPPORTED,
              "pre-multiplied sums are not made in the order of a stream where the ranks' GPUs "
              "cannot reach each other"};
    }
  }
  return {};
}

void Communicator::adopt_device_failure() { failures_.adopt(device_->failure()); }

tutti_status Communicator::enqueue(const Call& call, void* stream) {
  enter();
  if (device_ == nullptr) return fail(no_device());
  if (failures_.over()) {
    adopt_device_failure();
    failures_.break_down({TUTTI_ABORTED, {}}, "on the GPU", 0);
    return fail(failures_.why());
  }
  Status enqueued = device_->proxy() != nullptr ? check_slices(call) : Status();
  if (enqueued.ok())
    enqueued = device_->enqueue(call, runner_.planner().level_of(call.key), stream);
  if (enqueued.ok()) return TUTTI_OK;
  if (!stays_with_caller(enqueued)) {
    failures_.break_down(enqueued,
                         std::string("on the GPU, in ") + collective_name(call.key.collective), 0);
    return fail(failures_.why());
  }
  return fail(std::move(enqueued));
}

tutti_status Communicator::device_status() {
  if (device_ == nullptr) return TUTTI_OK;
  adopt_device_failure();
  if (!failures_.over()) return TUTTI_OK;
  failures_.break_down({TUTTI_ABORTED, {}}, "on the GPU", 0);
  return fail(failures_.why());
}

// ---------------------------------------------------------------- blocking calls

Status Communicator::wait_on_device(uint64_t timeout_ns) {
  constexpr uint32_t looks_per_clock = 64;
  const uint64_t deadline_ns = later_ns(now_ns(), timeout_ns);
  for (uint32_t look = 1;; ++look) {
    bool ended = false;
    TUTTI_TRY(device_->own_ended(&ended));
    if (ended) return device_->failure();  // one that failed ends, too
    if (look % looks_per_clock == 0) {
      TUTTI_TRY(device_->failure());
      if (now_ns() >= deadline_ns) return device_->describe_timeout();
    }
    if (in_flight::advance_all() != in_flight::Moved::freely) sched_yield();
  }
}

tutti_status Communicator::run_on_device(const Call& call) {
  Status ended;
  if (failures_.over()) {
    ended = {TUTTI_ABORTED, {}};
  } else {
    ended = device_->enqueue_own(call, runner_.planner().level_of(call.key));
    if (stays_with_caller(ended)) return fail(std::move(ended));
    if (ended.ok()) ended = wait_on_device(connection_.timeout_ns(call.timeout_ms));
  }
  if (ended.ok()) return TUTTI_OK;
  failures_.break_down(std::move(ended), std::string("in ") + collective_name(call.key.collective),
                       0);
  device_->settle();  // what was enqueued no longer touches the caller's memory
  return fail(failures_.why());
}

// ---------------------------------------------------------------- memory

tutti_status Communicator::mem_alloc_device(size_t bytes, void** out) {
  if (device_ == nullptr) return fail(no_device());
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  GroupExchange exchange(*this, connection_.key);
  Status ended = device_->add_memory(exchange, true, nullptr, bytes,
                                     deadline_after_ms(connection_.settings.setup_ms), out);
  return ended.ok() ? TUTTI_OK : fail(std::move(ended));
}

tutti_status Communicator::mem_register_device(void* address, size_t bytes) {
  if (device_ == nullptr) return fail(no_device());
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  GroupExchange exchange(*this, connection_.key);
  void* registered = nullptr;
  Status ended = device_->add_memory(exchange, false, address, bytes,
                                     deadline_after_ms(connection_.settings.setup_ms), &registered);
  return ended.ok() ? TUTTI_OK : fail(std::move(ended));
}

}  // namespace tutti
