// A call in flight, from tutti_iallreduce() or tutti_start() until it has ended; what a
// tutti_request points to.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/call/message.h"

namespace tutti {

class Communicator;
struct CallPlan;

// Outlives its communicator, so that a request shows that its communicator has been freed.
struct CommunicatorRef {
  explicit CommunicatorRef(Communicator* owner) : communicator(owner) {}
  Communicator* communicator;  // null once it is freed
};

struct Operation {
  MadeCall made;                  // of a collective; `call_plan` says which
  std::vector<size_t> lengths;    // the caller's arrays of a v form
  std::vector<Message> messages;  // instead of a collective
  int64_t timeout_ms = 0;
  std::shared_ptr<CallPlan> call_plan;
  std::shared_ptr<CommunicatorRef> owner;
  bool persistent = false;
  bool active = false;  // between start and wait

  // While it is in flight: the next of its communicator, and whether it runs already.
  Operation* next = nullptr;
  bool running = false;
  Call call;  // as it runs, where that differs from `made`
  const Call* runs = nullptr;
  size_t left = 0;     // messages that have not ended
  uint32_t entry = 0;  // of messages, in the flight record
  Status failure;      // written before `result`
  // IN_PROGRESS until it has ended; then no other thread touches the operation any more.
  std::atomic<tutti_status> result{TUTTI_OK};

  bool moves_messages() const { return call_plan == nullptr; }
  bool ended() const { return result.load(std::memory_order_acquire) != TUTTI_IN_PROGRESS; }
  // Copies the caller's arrays, which may be gone before the call runs.
  void keep_lengths(size_t nranks);
};

}  // namespace tutti
