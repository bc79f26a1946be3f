// The calls of a communicator that are in flight: nonblocking ones, and blocking ones behind them.
// They run in the order in which they were started, except that adjacent messages run concurrently.
// Threads that wait or test advance them, and so does the progress thread.
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

// One thread at a time, except busy() and what Member allows.
class CallQueue final : in_flight::Member {
 public:
  // All outlive this.
  CallQueue(const Connection& connection, Failures& failures, CallRunner& runner,
            Messages& messages)
      : connection_(connection), failures_(failures), runner_(runner), messages_(messages) {}
  // Calls that are still in flight fail.
  ~CallQueue() override;

  // Whether anything is in flight. Any thread.
  bool busy() const override { return in_flight_.load(std::memory_order_acquire) != 0; }
  // What is in flight, in words; empty if nothing is.
  std::string describe();

  // See Communicator.
  tutti_status prepare(Operation* operation);
  void start(Operation* operation);
  tutti_status wait(Operation* operation);
  void wait_any(std::span<Operation* const> operations);
  tutti_status test(Operation* operation, bool* ended);

  // A blocking call that is made while others are in flight queues behind them.
  tutti_status run_behind(const Call& call);
  tutti_status run_behind(std::span<const Message> messages, int64_t timeout_ms);

  // Held while calls are advanced; a thread that sees nothing in flight need not take it.
  Lock& lock() { return lock_; }
  // The number that a collective would have that is made now; under the lock.
  uint64_t next_call() const;
  // A failure that no call has returned yet, or that one of these ranks is gone; OK if there is
  // none.
  Status look(std::span<const int> members);
  // Ends the communicator for the reason `why`; what is in flight fails.
  tutti_status abandon(Status why);

 private:
  Status look_for(int rank);
  in_flight::Moved advance_if_free() override;
  tutti_status conclude(Operation* operation);
  // Until done(), or until nothing is in flight. `waited`: the operation with that limit.
  template <class Done>
  void run_until(Done&& done, const Operation& waited);

  // Under the lock.
  bool begin_next();
  bool begin_operation(Operation& operation);
  bool begin_messages(Operation& operation);
  bool advance();
  bool move_on();
  void look_at_first();
  bool ran_dry() const;
  void complete_first();
  void end_first(Status ended);
  void retire_first(Status ended);
  void retire(Operation* operation);
  Status inspect(uint64_t now_ns);
  void look_for_failure(uint64_t now_ns);
  // What runs has failed, and with it all that is in flight. `waited`: what named the limit that
  // has passed.
  void break_down(Status ended, const Operation* waited = nullptr);
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
  bool listed_ = false;        // in in_flight, whose members every wait advances
};

}  // namespace tutti
