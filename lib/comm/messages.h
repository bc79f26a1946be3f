// Point to point: messages between pairs of ranks, one alone or many at once.
#pragma once

#include <span>

#include "lib/call/message.h"
#include "lib/comm/call_runner.h"
#include "lib/comm/connection.h"
#include "lib/comm/failures.h"
#include "lib/comm/traffic.h"
#include "lib/comm/wait_pace.h"

namespace tutti {

// One thread at a time.
class Messages {
 public:
  // All outlive this.
  Messages(const Connection& connection, Failures& failures, const CallRunner& runner)
      : connection_(connection), failures_(failures), runner_(runner) {}
  // Once the number of ranks is known.
  void open() { traffic_.open(connection_.nranks, connection_.rank); }

  // Runs them to their end, those with one peer in order; nothing else may be in flight.
  tutti_status run(std::span<const Message> messages, int64_t timeout_ms);

  // The same in steps. *left, which must stay valid, is 0 once they have ended.
  // *entry: their place in the flight record, for leave().
  Status add(std::span<const Message> messages, size_t* left, uint32_t* entry);
  // They have ended well.
  void leave(uint32_t entry) {
    if (connection_.record != nullptr) connection_.record->leave(entry);
    failures_.hide_wait(runner_.calls());
  }
  bool advance() { return traffic_.advance(*connection_.link); }
  Status inspect(uint64_t now_ns);
  bool ran_dry() const { return traffic_.ran_dry(); }
  // Messages have failed: the communicator is over. Named is the first in flight of those with that
  // `left`; if it is null, or none is in flight, the first of all; if there is none, `asked`.
  void break_down(const Message& asked, const size_t* left, Status ended);
  // Drops what is in flight.
  void clear() { traffic_.clear(); }

  const Transfers& transfers() const { return traffic_.transfers(); }

 private:
  // As CallRunner::show_wait().
  void show_wait(uint64_t now_ns);

  const Connection& connection_;
  Failures& failures_;
  const CallRunner& runner_;
  Traffic traffic_;
  WaitPace wait_pace_;  // of the first message
};

}  // namespace tutti
