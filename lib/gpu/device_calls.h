// A communicator's calls on memory of its GPU. They are enqueued on streams and no thread waits for
// them; the process's service thread (service_thread.h) checks whether those that run can still
// end.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/call/call.h"
#include "lib/gpu/device_proxy.h"
#include "lib/gpu/on_stream.h"
#include "lib/gpu/peer_status_page.h"
#include "lib/gpu/service_thread.h"
#include "lib/gpu/stream_choice.h"
#include "lib/gpu/stream_lanes.h"

namespace tutti {

class DeviceCalls final : service_thread::Watched {
 public:
  struct Setup {
    int device = 0;
    Capabilities capabilities;
    int64_t timeout_ms = 0;              // of calls that name none
    const char* through_host = nullptr;  // why, also where GPUs reach each other; null: they may
    std::function<void(const Status&)> on_failure;  // any thread, once; may not block
  };

  // Collective. Where calls cannot run on the GPUs enqueue() refuses them, unless there is a proxy.
  static Status open(Exchange& exchange, const Setup& setup, uint64_t deadline_ns,
                     std::unique_ptr<DeviceCalls>* out);
  // Waits until the other ranks no longer use this rank's memory, for a limited time.
  ~DeviceCalls() override;

  // Collective, where the GPUs cannot reach each other; see DeviceProxy::open().
  Status open_proxy(Exchange& exchange, SliceHosts hosts, uint64_t deadline_ns);
  bool reach_each_other() const { return arena_ != nullptr; }
  // Null: calls are not made by the host.
  const DeviceProxy* proxy() const { return proxy_.get(); }

  device::Driver& driver() const { return driver_; }
  int device() const { return setup_.device; }
  // Whether the call can run on the GPUs themselves; equal on all ranks.
  Status check(const CallKey& key, tutti_level level) const;

  // One thread at a time. `level`: what the ranks agree on.
  Status enqueue(const Call& call, tutti_level level, device::Stream stream);
  // The same on a stream of the communicator's own; then whether it has ended.
  Status enqueue_own(const Call& call, tutti_level level);
  Status own_ended(bool* out);
  // After a failure: waits until it has ended, two seconds at most.
  void settle();

  // Looks, and says why the communicator is over; OK if it is not. Any thread.
  Status failure();
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Ends the communicator: releases what waits on the GPU, and notifies the other ranks. The first
  // reason is kept. Any thread.
  void fail(Status why);
  // The error of a call that has passed its deadline.
  Status describe_timeout() const;

  // Memory that the other ranks reach where they can. The first is collective; `make` as
  // Arena::add().
  Status add_memory(Exchange& exchange, bool make, void* address, size_t bytes,
                    uint64_t deadline_ns, void** out);
  bool remove_memory(const void* address);

 private:
  // Everything about a call that is the same for all calls like it.
  struct StreamPlan {
    CallKey key;
    tutti_level level = TUTTI_LEVEL_FAST;
    StreamChoice choice;
    plan::StreamCall call;
    plan::Plan plan;  // of StreamPath::lanes
    std::unique_ptr<plan::Binding> binding;
  };

  DeviceCalls(device::Driver& driver, const Setup& setup) : driver_(driver), setup_(setup) {}
  Status open_arena(Exchange& exchange, uint64_t deadline_ns);
  Status open_local();
  Status make_events();
  Status own_stream(device::Stream* out) const;
  Status find(const CallKey& key, tutti_level level, StreamPlan** out);
  Status prepare(const CallKey& key, tutti_level level, StreamPlan* out);
  Status prepare_plan(const CallKey& key, StreamPlan* out) const;
  Status check_buffers(const Call& call) const;
  Status check_stream(device::Stream stream) const;
  // Calls run in the order in which they are made, on whatever streams.
  Status follow_last(device::Stream stream, uint64_t capture);
  Status remember(device::Stream stream, uint64_t capture);
  Status enqueue_lanes(const StreamPlan& stream_plan, const Call& call,
                       plan::StreamCall stream_call, uint64_t capture, device::Stream stream);
  Status grow_scratch(uint64_t bytes, uint64_t capture);
  void look() override;
  Status look_at_own(uint64_t now_ns);
  Status look_at_others(uint64_t begun, uint64_t now_ns);
  Status mismatch() const;
  void drain();
  void drain_proxy();
  Status enqueue_by_host(const Call& call, tutti_level level, device::Stream stream);

  device::Driver& driver_;
  Setup setup_;
  uint32_t rank_ = 0;
  std::unique_ptr<Arena> arena_;  // null: calls cannot run on the GPUs
  std::string why_not_;
  std::unique_ptr<DeviceProxy> proxy_;
  std::unique_ptr<plan::StreamKernels> kernels_;
  std::unique_ptr<plan::StreamLanes> lanes_;
  std::unique_ptr<PeerStatusPage> peer_status_;
  bool watched_ = false;
  std::array<std::unique_ptr<StreamPlan>, 64> prepared_;

  device::Event own_event_ = nullptr;
  // Recorded behind the last call, and behind the last that was captured.
  device::Event last_event_ = nullptr, captured_event_ = nullptr;
  bool any_ = false;
  uint64_t last_capture_ = 0;
  // Captured calls may use earlier ones for as long as the communicator lives.
  std::vector<device::Address> scratch_;
  uint64_t scratch_bytes_ = 0;
  std::vector<device::Address> unshared_;  // add_memory() where there is no arena

  std::mutex mutex_;  // of what follows, and of look()
  std::atomic<bool> failed_{false};
  Status failure_;
  uint64_t seen_begun_ = 0, seen_ns_ = 0;  // by look()
  int suspect_ = -1;                       // a rank that was gone when it was last looked at
  uint64_t suspect_call_ = 0, suspect_ns_ = 0;
};

}  // namespace tutti
