// Point to point: messages between pairs of ranks, one alone or many at once.
#pragma once

#include <span>
#include <vector>

#include "lib/call/message.h"
#include "lib/comm/connection.h"
#include "lib/comm/failures.h"
#include "lib/comm/traffic.h"

namespace tutti {

// One thread at a time.
class Messages {
 public:
  // Both outlive this.
  Messages(const Connection& connection, Failures& failures)
      : connection_(connection), failures_(failures) {}
  // When it is known how many ranks there are.
  void open();

  // While a group is open, messages are only noted in it.
  bool grouping() const { return grouping_; }
  void note(std::span<const Message> messages);
  tutti_status group_begin();
  // Closes it; what was noted is *out, or nothing.
  tutti_status group_end(std::vector<Message>* out);

  // Runs them to their end, those with a peer in their order; nothing else is in flight.
  tutti_status run(std::span<const Message> messages, int64_t timeout_ms);

  // In steps: *left, which must stay, becomes 0 when they have ended.
  Status add(std::span<const Message> messages, size_t* left);
  bool advance() { return traffic_.advance(*connection_.link); }
  Status inspect(uint64_t now_ns) { return traffic_.inspect(*connection_.link, now_ns); }
  bool ran_dry() const { return traffic_.ran_dry(); }
  // They have failed: the communicator is over. `asked`: one of those that were on their way.
  void break_down(const Message& asked, Status ended);
  // Nothing is on its way any more.
  void clear() { traffic_.clear(); }

  const Transfers& transfers() const { return traffic_.transfers(); }

 private:
  const Connection& connection_;
  Failures& failures_;
  std::vector<uint64_t> sends_, receives_;  // messages so far, by peer
  bool grouping_ = false;
  std::vector<Message> group_;
  Traffic traffic_;
};

}  // namespace tutti
