// The contract of a transport. A Link is one rank's end of one communicator: for every peer an
// ordered stream of bytes in each direction, with a bounded buffer, that a sender fills and a
// receiver empties in slices. Nothing in the try_ verbs blocks; sleeping, failure and time are in
// inspect() and sleep(). Transports know nothing of algorithms or schedules.
//
// One thread at a time uses a Link, except abort() and post_note(), which any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/call/note.h"
#include "lib/call/signature.h"
#include "lib/control/exchange.h"

namespace tutti {

// The most whole granules in `bytes`. Granules are nearly always powers of two, and then this costs
// no division, which would be felt in a call of 100 ns.
constexpr size_t whole_granules(size_t bytes, size_t granule) {
  return (granule & (granule - 1)) == 0 ? bytes & ~(granule - 1) : bytes - bytes % granule;
}

namespace slots {
class SlotLink;  // lib/slots: over memory that all its ranks map
}

// What the vectors lie in that a link moves.
enum class LinkMemory : uint8_t {
  host,
  gpu,     // memory of GPUs: no byte of it may be touched, nothing peeked at
  unknown  // the same, and what it is finds out who moves it
};

// What a transport needs to bring up one communicator. open() functions are collective over the
// exchange: all ranks call them, in the same order, also a rank that has no peer on the transport.
struct LinkSetup {
  Exchange* exchange = nullptr;    // over the ranks of the communicator
  uint64_t comm_id = 0;            // random, equal on all ranks, unique in the job
  std::span<const uint8_t> peers;  // peers[r] != 0: this link serves the pair (own rank, r)
  std::string interface;           // name or address of the network's; empty: choose
  uint64_t deadline_ns = 0;        // of open()
  LinkMemory memory = LinkMemory::host;
};

class Link {
 public:
  virtual ~Link() = default;

  // How often to look for a message in a row: a system call is dear, a load is not.
  static constexpr int looks = 1;
  // A verb that moves less than this, and less than it could, has met the end of what can be moved
  // at once.
  static constexpr size_t gulp = 64 << 10;

  virtual const char* name() const = 0;  // "shm"

  // A call begins: from here on every slice sent carries mark.digest, and every slice received must
  // carry it too. `mark` is also what peers see when they ask what this rank is doing.
  virtual void begin(const CallMark& mark) = 0;

  // Takes up to `bytes` of `data` towards `peer`, returns how many; 0: the stream is full. The
  // caller offers the rest of the same message again; the bytes taken may be overwritten at once.
  virtual size_t try_send(int peer, const std::byte* data, size_t bytes) = 0;

  // The next bytes from `peer`, where they lie: at most `most`, a multiple of `granule` (the size
  // of an element, a divisor of `most`), contiguous; empty: nothing (whole) has arrived. They stay
  // until consume() of as many or fewer.
  virtual std::span<const std::byte> try_peek(int peer, size_t most, size_t granule) = 0;
  virtual void consume(int peer, size_t bytes) = 0;

  // Moves up to `most` of the next bytes from `peer` to `to`, returns how many.
  virtual size_t try_recv(int peer, std::byte* to, size_t most) = 0;

  // Called when a rank has waited past its spin budget, and then again and again: looks for a
  // reason why nothing comes. OK: none, wait on. PEER_FAILED, MISMATCH, ABORTED, CORRUPT: the call
  // is over, and the communicator with it. A wrong digest met by a try_ verb is reported here.
  // Every error names its rank and, for MISMATCH, both calls in words.
  virtual Status inspect(uint64_t now_ns) = 0;

  // Going to sleep is arm(), one more look at the streams, sleep(): what peers do after arm() ends
  // the sleep.
  virtual void arm() {}
  // Takes arm() back when the look found something after all.
  virtual void disarm() {}
  // Sleeps until a peer may have sent or received something, or until `until_ns`. May return early.
  virtual void sleep(uint64_t until_ns) = 0;

  // The last call in which `peer` was seen, if any: for the sentence of a TIMEOUT.
  virtual std::optional<CallMark> last_seen(int peer) const = 0;

  // Tells every peer that the communicator is over and why: each gets `reason` from inspect().
  // First one wins. Any thread, never blocks; after it inspect() returns an error here too.
  virtual void abort(const Status& reason) = 0;

  // Shows `note` to every peer, in place of the one before, as far and as soon as that can be done
  // without waiting; the latest may be posted again until it has reached all. An empty one: this
  // rank has nothing to say. Any thread, one at a time, also while another uses the link.
  virtual void post_note(const Note& note) { (void)note; }
  // What `peer` shows, as of the last inspect(); possibly an older one, never parts of two.
  virtual Note read_note(int peer) const {
    (void)peer;
    return {};
  }

  // How often a waiting rank looks at most before it yields: a look at a socket is a system call,
  // and as many of them as of looks at memory take milliseconds.
  virtual uint32_t most_spins() const { return 100; }

  // Itself, where it is over memory that its ranks share; else null.
  virtual slots::SlotLink* slots() { return nullptr; }
};

}  // namespace tutti
