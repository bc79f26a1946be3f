// Stream-ordered calls where the ranks' GPUs cannot reach each other: the hosts make them. A call
// is cut into slices, on all ranks alike. Each slice goes through one of a few slots in pinned
// memory, or in memory of the GPU if the call only moves data and the network reaches that memory:
//
// clang-format off
//   one stream   wait until the slot is free  copy GPU -> slot  kernel: "slice k is there"
//   host's thread                                                 the same collective, of slice k
//   other stream                                                    wait for it  copy slot -> GPU
// clang-format on
//
// so that the copies of the slices before and after overlap with the network and the reduction of
// one. The thread makes no CUDA calls, unless the transport does: kernels set and clear flags of a
// board (lib/device/abi.h) in pinned memory, which is indexed by slot instead of by rank. A kernel
// passes the host a pointer to the description of the call, and the number of the slice. Enqueuing
// a call advances no counter, so the call can be captured and replayed.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/call/call.h"
#include "lib/control/exchange.h"
#include "lib/device/driver.h"
#include "lib/gpu/host_calls.h"
#include "lib/gpu/proxy_slots.h"

namespace tutti {

class DeviceProxy {
 public:
  using OnFailure = std::function<void(const Status&)>;  // called in the thread; calls let_go()

  // Collective. *out stays empty, with OK, where a GPU cannot wait in its streams: *why says so.
  static Status open(Exchange& exchange, device::Driver& driver, int device, SliceHosts hosts,
                     OnFailure on_failure, uint64_t deadline_ns, std::unique_ptr<DeviceProxy>* out,
                     std::string* why);
  // Nothing on the GPU may use it any more.
  ~DeviceProxy();

  // Whether another rank is a thread of this process on the same GPU.
  bool shares_context() const { return shares_context_; }

  // The keys of the calls that the host will make for it: of a full slice, and of the last one.
  // They may be equal.
  Status keys_of(const CallKey& key, tutti_level level, std::array<CallKey, 2>* out) const;
  // The GPU must be current. The caller puts calls in order.
  Status enqueue(const Call& call, tutti_level level, int64_t timeout_ms, device::Stream stream);

  // Releases everything that waits; what is enqueued gives no result; the other ranks are notified.
  // Any thread.
  void let_go(const Status& why);
  // Whether no slice is in flight between GPU and host.
  bool idle() const;

 private:
  static constexpr uint32_t slots = ProxySlots::count;

  // How slices run: which host makes their calls, and through which slots. After a failed call the
  // host's link may still read and write the slots, so they are destroyed after the host.
  struct Route {
    ProxySlots slots;
    std::unique_ptr<SliceHost> host;
  };

  // The description of a call, kept for as long as the communicator lives: captured calls may be
  // replayed.
  struct Described {
    CallKey key;  // of the whole call
    const Route* route = nullptr;
    std::string algorithm;
    int64_t timeout_ms = 0;
    uint64_t slice = 0;  // elements, of each block
    uint64_t slices = 1;

    uint64_t count_of(uint64_t number) const {
      return std::min(slice, key.count - std::min(key.count, number * slice));
    }
  };
  // Blocks of one of a rank's vectors; none: it has no such vector.
  struct Side {
    uint64_t blocks = 0;
    device::Address at = 0;
  };

  DeviceProxy(device::Driver& driver, int device, SliceHosts hosts, OnFailure on_failure);
  Status meet(Exchange& exchange, uint64_t deadline_ns, std::string* why);
  Status open_local();

  uint32_t rank() const { return uint32_t(staged_.host->rank()); }
  uint32_t nranks() const { return uint32_t(staged_.host->nranks()); }
  Status cut(const CallKey& key, tutti_level level, Described* out) const;
  // Decided from what all ranks know.
  const Route* route_of(const Described& described) const;
  Status describe(const CallKey& key, tutti_level level, int64_t timeout_ms, const Described** out);
  Side input_side(const Call& call) const;
  Side output_side(const Call& call) const;
  Status give(const Described& described, uint64_t number, const Side& input, const Side& output);
  Status give_own(const Described& described, uint64_t number, const Side& input,
                  const Side& output);
  Status take(const Described& described, uint64_t number, const Side& output);
  Status copy_blocks(const Described& described, uint64_t number, const Side& side,
                     device::Address slot, bool to_slot, device::Stream stream) const;
  Status signal(const device::Common& common, device::Stream stream) const;

  uint32_t* flag(device::Flag flag, uint32_t slot) const {
    return &board_->flags[flag][slot].value;
  }

  void work();
  Status run_slice(const Described& described, uint64_t number, uint32_t slot);
  void release_waits();

  device::Driver& driver_;
  const int device_;
  Route staged_;
  Route direct_;  // without a host: not used
  OnFailure on_failure_;
  bool shares_context_ = false;

  // In pinned memory, and its address on the GPU.
  device::Board* board_ = nullptr;
  device::Address board_address_ = 0;
  device::Kernel kernel_ = nullptr;
  device::Common common_{};  // arguments common to all kernels
  device::Stream giving_ = nullptr, taking_ = nullptr;
  device::Event forked_ = nullptr, joined_ = nullptr;
  std::array<device::Event, slots> given_{}, taken_{};  // of each slot

  std::vector<std::unique_ptr<Described>> described_;

  std::atomic<uint64_t> next_{0};  // number of the next slice of the thread's call
  std::atomic<bool> failed_{false}, stops_{false};
  std::thread thread_;
};

}  // namespace tutti
