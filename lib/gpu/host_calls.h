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

// What a call of memory of the host would go by.
struct HostPlan {
  const Algorithm* algorithm = nullptr;
  bool premultiplies = false;  // its input, by the operator's scalar
};

// The communicator's own calls; its user's thread, but for abort_link().
class HostCalls {
 public:
  virtual ~HostCalls() = default;

  // To their end, on memory of the host.
  virtual tutti_status run_on_host(const Call& call) = 0;
  virtual tutti_status run_on_host(std::span<const Message> messages, int64_t timeout_ms) = 0;
  // Finds or makes it; what is wrong is the last error, too.
  virtual Status plan_on_host(const CallKey& key, HostPlan* out) = 0;
  // What all ranks must agree on.
  virtual tutti_level level_of(const CallKey& key) const = 0;
  // Of a call that names this limit, or none: 0.
  virtual uint64_t timeout_ns(int64_t timeout_ms) const = 0;

  // Keeps `status` as the last error and returns its code.
  virtual tutti_status fail(Status status) = 0;
  // The same; and the communicator is over, for all.
  virtual tutti_status give_up(Status status, const std::string& where) = 0;
  // Whether it is.
  virtual bool over() const = 0;
  // The GPU's side has found why, and told the peers; OK: nothing.
  virtual void adopt(Status why) = 0;
  // It is over: the peers find out. Any thread; never blocks.
  virtual void abort_link(const Status& why) = 0;
};

// Another communicator of the same ranks, on which the host makes calls of slices.
class SliceHost {
 public:
  virtual ~SliceHost() = default;
  virtual int rank() const = 0;
  virtual int nranks() const = 0;
  // Whether it can make the call, being one of memory that only its link may touch. Any thread.
  virtual bool can_move(const CallKey& key) const = 0;
  // The thread that calls this will make the calls.
  virtual void claim() = 0;
  // A collective of some elements of a call of `whole`, which ranks agree on, too.
  virtual Status run_slice(const Call& call, uint64_t whole) = 0;
  // Any thread; never blocks.
  virtual void abort(const Status& why) = 0;
};

// Of the same ranks, for calls that the host makes for GPUs alone.
struct SliceHosts {
  std::unique_ptr<SliceHost> staged;
  std::unique_ptr<SliceHost> direct;  // of memory of GPUs; null on all ranks: there is none
};

}  // namespace tutti
