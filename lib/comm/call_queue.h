// The calls of a communicator that run beside their callers: they run in the order in which they
// were started, but for messages next to each other, which run at once; moved on by whoever waits
// or looks, and by the progress thread.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "lib/base/lock.h"
#include "lib/comm/call_runner.h"
#include "lib/comm/connection.h"
#include "lib/comm/failures.h"
#include "lib/comm/messages.h"
#include "lib/comm/operation.h"
#include "lib/progress/in_flight.h"

namespace tutti {

// One thread at a time, but for busy() and what Member says.
class CallQueue final : in_flight::Member {
 public:
  // All outlive this.
  CallQueue(const Connection& connection, Failures& failures, CallRunner& runner,
            Messages& messages)
      : connection_(connection), failures_(failures), runner_(runner), messages_(messages) {}
  // What is in flight fails.
  ~CallQueue() override;

  // Whether anything is in flight. Any thread.
  bool busy() const override { return in_flight_.load(std::memory_order_acquire) != 0; }
  // What is in flight, in words; empty.
  std::string describe();

  // See Communicator.
  tutti_status prepare(Operation* operation);
  void start(Operation* operation);
  tutti_status wait(Operation* operation);
  void wait_any(std::span<Operation* const> operations);
  tutti_status test(Operation* operation, bool* ended);

  // A blocking call while others are in flight is one of them.
  tutti_status run_behind(const Call& call);
  tutti_status run_behind(std::span<const Message> messages, int64_t timeout_ms);

  // Of whatever moves calls on; unnecessary for whoever sees that nothing is in flight.
  Lock& lock() { return lock_; }
  // Whether something has gone wrong that no call has met yet.
  Status look();
  // The communicator is over, for what `why` says; so is what is in flight.
  tutti_status abandon(Status why);

 private:
  in_flight::Moved advance_if_free() override;
  tutti_status conclude(Operation* operation);
  // Or until nothing is in flight.
  template <class Done>
  void run_until(Done&& done, uint64_t timeout_ns);

  // Under the lock.
  bool begin_next();
  bool begin_operation(Operation& operation);
  bool begin_messages(Operation& operation);
  bool advance();
  bool move_on();
  void look_at_first();
  bool ran_dry() const;
  void complete_first(uint64_t timeout_ns);
  void end_first(Status ended);
  void retire_first(Status ended);
  void retire(Operation* operation);
  Status inspect(uint64_t now_ns);
  void look_for_failure(uint64_t now_ns);
  // What runs has failed: it all has.
  void break_down(Status ended);
  void fail_all(const Status& why);

  const Connection& connection_;
  Failures& failures_;
  CallRunner& runner_;
  Messages& messages_;

  Lock lock_;
  std::atomic<uint32_t> in_flight_{0};
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
  uint64_t inspected_ns_ = 0;  // by test()
  bool listed_ = false;        // among those that whoever waits moves on
};

}  // namespace tutti
