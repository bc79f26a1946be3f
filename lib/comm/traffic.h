// Several messages over one link, which knows only one at a time.
#pragma once

#include <vector>

#include "lib/base/transfers.h"
#include "lib/call/call.h"
#include "lib/call/message.h"
#include "transports/transport.h"

namespace tutti {

// A message in flight.
struct Moving {
  Message message;
  CallMark mark;
  uint64_t bytes = 0;
  size_t* left = nullptr;  // of those that were asked for together, how many have not ended
  uint32_t entry = 0;      // of these, in the flight record
  uint64_t done = 0;
  uint64_t serial = 0;

  bool ended() const { return done == bytes; }
};

class Traffic {
 public:
  void add(Moving moving);
  void clear() { moving_.clear(); }
  bool empty() const { return moving_.empty(); }
  // The first; there must be one.
  const Message& first() const { return moving_.front().message; }
  uint32_t first_entry() const { return moving_.front().entry; }

  // Advances those whose turn it is, and removes those that have ended.
  bool advance(Link& link);
  // A failure that stops one of them; else OK. Inspects the link, tries to move the message, and
  // inspects again if it has not moved: what the peer had sent before the first inspection is
  // visible by then.
  Status inspect(Link& link, uint64_t now_ns);
  // Whether a message of the last advance() could not be moved to its end.
  bool ran_dry() const { return dry_; }
  // So far; a message counts from its first bytes on.
  const Transfers& transfers() const { return transfers_; }

 private:
  void take_up(Link& link, const Moving& one);
  bool move(Link& link, Moving* one);
  // Messages with a peer in one direction go one after the other.
  bool is_next(size_t i) const;
  void forget_ended();

  std::vector<Moving> moving_;  // in the order in which they were asked for
  uint64_t serial_ = 0;
  uint64_t taken_up_ = 0;  // the link's
  bool dry_ = false;
  Transfers transfers_;
};

}  // namespace tutti
