// The calls of a communicator that has a GPU: those enqueued on streams, and blocking ones, which
// run where all ranks' buffers lie: on the GPUs, or on the host with copies in pinned memory.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>

#include "lib/call/call.h"
#include "lib/call/message.h"
#include "lib/control/exchange.h"
#include "lib/gpu/device_calls.h"
#include "lib/gpu/host_calls.h"
#include "lib/gpu/pinned_copies.h"

namespace tutti {

// Only in the thread that uses the communicator, except failure() and fail().
class GpuFront {
 public:
  // Makes the communicators for calls that the host makes for GPUs; collective.
  using MakeHosts = std::function<Status(device::Driver& driver, int device, SliceHosts* out)>;

  // Collective. `host` outlives this.
  static Status open(Exchange& exchange, DeviceCalls::Setup setup, HostCalls& host,
                     const MakeHosts& make_hosts, uint64_t deadline_ns,
                     std::unique_ptr<GpuFront>* out);

  int device() const { return calls_->device(); }

  // Run to the end; on each rank buffers may lie on the GPU or in memory of the host.
  tutti_status run(const Call& call);
  tutti_status run(std::span<const Message> messages, int64_t timeout_ms);
  // Enqueues a collective on memory of the GPU.
  tutti_status enqueue(const Call& call, void* stream);
  // The first failure of what was enqueued.
  tutti_status status();

  // INVALID where one of them lies on a GPU: for calls that take memory of the host only.
  Status check_on_host(std::initializer_list<const void*> buffers) const;
  // The same for a nonblocking call, and for nonblocking messages.
  Status refuse(const Call& call) const;
  Status refuse(std::span<const Message> messages) const;

  // See DeviceCalls.
  Status add_memory(Exchange& exchange, bool make, void* address, size_t bytes,
                    uint64_t deadline_ns, void** out) {
    return calls_->add_memory(exchange, make, address, bytes, deadline_ns, out);
  }
  bool remove_memory(const void* address) { return calls_->remove_memory(address); }
  Status failure() { return calls_->failure(); }
  void fail(const Status& why) { calls_->fail(why); }

 private:
  GpuFront(HostCalls& host, const Exchange& exchange, const Capabilities& capabilities)
      : host_(host),
        rank_(exchange.rank()),
        nranks_(exchange.nranks()),
        capabilities_(capabilities) {}

  tutti_status run_on_device(const Call& call);
  tutti_status run_staged(const Call& call);
  // For long vectors, if that does not change bits: the copy of one piece overlaps with the call of
  // another.
  bool goes_in_pieces(const Call& call, Call* piece);
  tutti_status run_in_pieces(const Call& call, Call piece);
  // Whether the host can make the calls of the call's slices.
  Status check_slices(const Call& call);
  // Where this rank's buffers lie: a set of Lies; INVALID where one is of another GPU.
  Status where_it_lies(const Call& call, uint8_t* out) const;
  tutti_status agree_where(int64_t timeout_ms, uint8_t* lies);
  Status wait_on_device(uint64_t timeout_ns);
  Vectors vectors_of(const Call& call) const {
    return tutti::vectors_of(call, uint32_t(rank_), uint32_t(nranks_));
  }

  HostCalls& host_;
  const int rank_, nranks_;
  const Capabilities capabilities_;
  std::unique_ptr<DeviceCalls> calls_;
  std::unique_ptr<PinnedCopies> pinned_;  // destroyed before the calls
};

}  // namespace tutti
