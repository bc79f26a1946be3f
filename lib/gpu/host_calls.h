// What calls on memory of GPUs need of the host's side of their communicator.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/call/message.h"
#include "lib/schedule/algorithm.h"

namespace tutti {

// How a call on memory of the host would run.
struct HostPlan {
  const Algorithm* algorithm = nullptr;
  bool premultiplies = false;  // its input, by the operator's scalar
};

// The communicator's own calls. Only in the thread that uses it, except abort_link().
class HostCalls {
 public:
  virtual ~HostCalls() = default;

  // Run to the end, on memory of the host.
  virtual tutti_status run_on_host(const Call& call) = 0;
  virtual tutti_status run_on_host(std::span<const Message> messages, int64_t timeout_ms) = 0;
  // Finds or makes it; a failure is kept as the last error, too.
  virtual Status plan_on_host(const CallKey& key, HostPlan* out) = 0;
  // The level, on which all ranks must agree.
  virtual tutti_level level_of(const CallKey& key) const = 0;
  // For a call with this limit; 0: the communicator's.
  virtual uint64_t timeout_ns(int64_t timeout_ms) const = 0;

  // Keeps `status` as the last error and returns its code.
  virtual tutti_status fail(Status status) = 0;
  // The same of what is refused before it has begun, which is told to the ranks that wait for it: a
  // collective, messages, a call on a stream.
  virtual tutti_status refuse(Status why) = 0;
  virtual tutti_status refuse(Status why, std::span<const Message> messages) = 0;
  virtual tutti_status refuse_on_stream(Status why) = 0;
  // A call on a stream has begun.
  virtual void begin_on_stream() = 0;
  // Keeps `status`; and the communicator is over, for all ranks.
  virtual tutti_status give_up(Status status, const std::string& where) = 0;
  // Whether it is.
  virtual bool over() const = 0;
  // The GPU's side has found the failure, and has notified the peers. OK: does nothing.
  virtual void adopt(Status why) = 0;
  // The communicator is over: notifies the peers. Any thread; never blocks.
  virtual void abort_link(const Status& why) = 0;
};

// Another communicator of the same ranks, on which the host makes the calls of slices.
class SliceHost {
 public:
  virtual ~SliceHost() = default;
  virtual int rank() const = 0;
  virtual int nranks() const = 0;
  // Of a communicator whose buffers only its link may access: whether it can make the call. Any
  // thread.
  virtual bool can_move(const CallKey& key) const = 0;
  // The calling thread will make the calls.
  virtual void claim() = 0;
  // Runs a slice of a call of `whole` elements, on which ranks must agree, too.
  virtual Status run_slice(const Call& call, uint64_t whole) = 0;
  // Any thread; never blocks.
  virtual void abort(const Status& why) = 0;
};

// Communicators of the same ranks that only serve calls which the host makes for GPUs.
struct SliceHosts {
  std::unique_ptr<SliceHost> staged;
  std::unique_ptr<SliceHost> direct;  // of memory of GPUs; null on all ranks: there is none
};

}  // namespace tutti
