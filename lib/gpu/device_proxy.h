// Stream-ordered calls where the ranks' GPUs cannot reach each other: the hosts make them. A call
// is cut into slices, on all ranks alike; on its way each goes through one of a few slots of pinned
// memory, or of the GPU's where calls only move data and the network reaches that:
//
//   one stream      wait until the slot is free   copy GPU -> slot   kernel: "slice k is there"
//   host's thread                                                    the same collective, of slice
//   k other stream                                                     wait for it   copy slot ->
//   GPU
//
// so that copies of the slices before and after go on beside the network and the reduction of one.
// The thread calls nothing of CUDA, unless the transport does: kernels set and clear flags of a
// board (lib/device/abi.h) that lies in pinned memory, with slots in the place of ranks. What a
// kernel tells the host is a pointer to what the call is and the number of the slice. Nothing is
// counted when a call is enqueued, so it can be captured and replayed.
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
  using OnFailure = std::function<void(const Status&)>;  // from the thread; calls let_go()

  // Collective. *out stays empty, with OK, where a GPU cannot wait in its streams: *why says so.
  static Status open(Exchange& exchange, device::Driver& driver, int device, SliceHosts hosts,
                     OnFailure on_failure, uint64_t deadline_ns, std::unique_ptr<DeviceProxy>* out,
                     std::string* why);
  // Nothing on the GPU uses it any more.
  ~DeviceProxy();

  // Whether another rank is a thread of this process on the same GPU.
  bool shares_context() const { return shares_context_; }

  // The calls that the host will make of it: one of full slices, one of what is left. They may be
  // the same.
  Status keys_of(const CallKey& key, tutti_level level, std::array<CallKey, 2>* out) const;
  // The GPU is current. Calls follow each other, by whoever enqueues them.
  Status enqueue(const Call& call, tutti_level level, int64_t timeout_ms, device::Stream stream);

  // Everything that waits goes on, and what is enqueued comes to nothing; the other ranks find out.
  // Any thread.
  void let_go(const Status& why);
  // Whether nothing is on its way between GPU and host.
  bool idle() const;

 private:
  static constexpr uint32_t slots = ProxySlots::count;

  // How slices are made: by whom, and through what. When a call has failed the communicator's link
  // may still read and write the slots: they go after it.
  struct Way {
    ProxySlots slots;
    std::unique_ptr<SliceHost> host;
  };

  // What a call is, for as long as the communicator lives: captured calls may come again.
  struct Described {
    CallKey key;  // of the whole call
    const Way* way = nullptr;
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
  // Follows from what all ranks know, too.
  const Way* way_of(const Described& described) const;
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
  Way staged_;
  Way direct_;  // without a host: there is no such way
  OnFailure on_failure_;
  bool shares_context_ = false;

  // Pinned, and where the GPU has it.
  device::Board* board_ = nullptr;
  device::Address board_address_ = 0;
  device::Kernel kernel_ = nullptr;
  device::Common common_{};  // what all kernels are told
  device::Stream giving_ = nullptr, taking_ = nullptr;
  device::Event forked_ = nullptr, joined_ = nullptr;
  std::array<device::Event, slots> given_{}, taken_{};  // of each slot

  std::vector<std::unique_ptr<Described>> described_;

  std::atomic<uint64_t> next_{0};  // slice of the call that the thread is in
  std::atomic<bool> failed_{false}, stops_{false};
  std::thread thread_;
};

}  // namespace tutti
