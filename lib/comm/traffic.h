// Several messages over one link, which knows only one at a time.
//
// What a rank sends to another is numbered, and a message's digest is of its number and signature.
// A receive has no number before its turn, since which of the messages from a rank it gets depends
// on how many receives from any rank have taken one.
#pragma once

#include <vector>

#include "lib/base/transfers.h"
#include "lib/call/call.h"
#include "lib/call/message.h"
#include "transports/transport.h"

namespace tutti {

CallSignature signature_of(const Message& message);

// A message in flight.
struct Moving {
  Message message;
  size_t* left = nullptr;  // of those that were asked for together, how many have not ended
  uint32_t entry = 0;      // of these, in the flight record
  // The rest is filled in by Traffic.
  uint64_t bytes = 0;
  uint64_t done = 0;
  uint64_t serial = 0;
  CallMark mark;      // without a digest until the message has its number
  uint64_t hash = 0;  // of its signature
  // Of a receive: how many messages without elements its peer has sent before it.
  uint64_t empty_before = 0;

  bool ended() const { return done == bytes; }
  bool is_numbered() const { return mark.digest != 0; }
};

class Traffic {
 public:
  // Once the number of ranks is known; `self`: this one.
  void open(int nranks, int self);
  void add(Moving moving);
  void clear() { moving_.clear(); }
  bool empty() const { return moving_.empty(); }
  // The first; there must be one.
  const Message& first() const { return moving_.front().message; }
  // The first of those that were asked for with that `left`; null: none is in flight.
  const Message* first_of(const size_t* left) const;
  uint32_t first_entry() const { return moving_.front().entry; }
  uint64_t first_serial() const { return moving_.front().serial; }

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
  struct Peer {
    uint64_t sends = 0;     // messages to it so far
    uint64_t received = 0;  // of its messages those that have begun to arrive
    // Receives without elements so far, which nothing is sent for; and as many of these as are
    // known to be before its next message.
    uint64_t empty = 0, least_empty = 0;
  };

  void take_up(Link& link, const Moving& one);
  bool move(Link& link, Moving* one);
  // Messages with a peer in one direction go one after the other, and so do receives from any rank
  // that would take the same message.
  bool is_next(size_t i) const;
  // Whether one whose turn it is has its number, and a receive from any rank its peer.
  bool is_ready(Link& link, size_t i);
  bool find_peer(Link& link, size_t i);
  // Whether a receive from any rank may have the next message from `peer`.
  bool may_take_from(int peer, size_t i) const;
  // What comes next from `peer`, for a receive from any rank, which gets its peer if it is that.
  Next look(Link& link, int peer, Moving* one);
  void number(Moving* one, uint64_t empty_before);
  Status find_deserted(Link& link, size_t i, uint64_t now_ns);
  bool may_still_come(Link& link, size_t i, uint64_t now_ns);
  void forget_ended();

  std::vector<Moving> moving_;  // in the order in which they were asked for
  std::vector<Peer> peers_;
  int self_ = 0;
  int served_ = 0;  // the rank whose message a receive from any rank took last
  uint64_t serial_ = 0;
  uint64_t taken_up_ = 0;  // the link's
  bool dry_ = false;
  bool matched_ = false;      // since advance() has begun: a receive from any rank got its peer
  uint64_t deserted_ns_ = 0;  // since when no other rank has the communicator; 0: some have
  Transfers transfers_;
};

}  // namespace tutti
