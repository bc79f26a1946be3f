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
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/call/note.h"
#include "lib/control/exchange.h"
#include "lib/control/seal.h"
#include "lib/tuning/tuning.h"

namespace tutti {

// `bytes` rounded down to whole granules. Granules are nearly always powers of two; then this needs
// no division, which would show in a call of 100 ns.
constexpr size_t whole_granules(size_t bytes, size_t granule) {
  return (granule & (granule - 1)) == 0 ? bytes & ~(granule - 1) : bytes - bytes % granule;
}

namespace slots {
class SlotLink;  // lib/slots: over memory that all its ranks map
}

// The kind of memory that a link moves vectors from and to.
enum class LinkMemory : uint8_t {
  host,
  gpu,     // memory of GPUs: the processor must not touch it, nothing can be peeked at
  unknown  // handled as gpu; the transport finds out the kind of each buffer
};

constexpr int64_t default_heartbeat_ms = 1500;

// What a peer sends next, for a rank that waits for one message.
enum class Next : uint8_t {
  nothing,  // has come yet
  this_one,
  another,  // another message, or a piece of a collective call
};

// Whether a call that waits, and for which this reason is found, may still end with what has come,
// as where another rank has ended it and failed in its next one. For other reasons it is wrong.
constexpr bool what_came_counts(tutti_status reason) {
  return reason == TUTTI_TIMEOUT || reason == TUTTI_PEER_FAILED || reason == TUTTI_ABORTED;
}

// Where another rank is, beside calls.
enum class Presence : uint8_t {
  here,
  left,     // it has freed the communicator, and has not gone on without this rank
  dead,     // its process has ended
  lost,     // nobody knows what it does, or it has gone on without this rank (Link::move_on())
  cut_off,  // as lost, but so are all, of several hosts: it is this rank that is cut off
};

// What a transport needs to bring up one communicator. open() functions are collective over the
// exchange: all ranks call them, in the same order, also a rank that has no peer on the transport.
struct LinkSetup {
  Exchange* exchange = nullptr;    // over the ranks of the communicator
  uint64_t comm_id = 0;            // random, equal on all ranks, unique in the job
  std::span<const uint8_t> peers;  // peers[r] != 0: this link serves the pair (own rank, r)
  std::string interface;           // name or address of a network interface; empty: choose one
  uint64_t deadline_ns = 0;        // of open()
  LinkMemory memory = LinkMemory::host;
  const Tuning* tuning = &default_tuning;  // the same on all ranks
  // Within which a peer's host that does not answer is lost to a rank that waits for it.
  uint64_t heartbeat_ns = ns_of_ms(default_heartbeat_ms);
  Integrity integrity = Integrity::automatic;  // the same on all ranks
};

class Link {
 public:
  virtual ~Link() = default;

  // How often in a row to look for a message: a look may be a system call, which is expensive.
  static constexpr int looks = 1;
  // A verb that moves fewer bytes than this, and fewer than asked for, has drained or filled the
  // stream: there is no point in calling it again at once.
  static constexpr size_t short_move_bytes = 64 << 10;

  virtual const char* name() const = 0;  // "shm"
  // How the peer is reached, where that differs from peer to peer.
  virtual const char* name_to(int peer) const {
    (void)peer;
    return name();
  }

  // Between which addresses: "10.0.0.1:4711 to 10.0.0.2:4712"; empty where there are none. It stays
  // as long as the link.
  virtual const char* addresses_to(int peer) const {
    (void)peer;
    return "";
  }

  // How what goes to and from the peer is protected on its way; not automatic.
  virtual Integrity integrity_to(int peer) const {
    (void)peer;
    return Integrity::none;
  }

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

  // Whether what comes next from `peer` is the message of `mark`. Takes nothing, and is no error
  // where it is another. Only between messages: what was received from the peer was received whole.
  virtual Next next(int peer, const CallMark& mark) = 0;

  // Moves up to `most` of the next bytes from `peer` to `to`, returns how many.
  virtual size_t try_recv(int peer, std::byte* to, size_t most) = 0;

  // Called repeatedly once a rank has waited past its spin budget: looks for a reason why nothing
  // comes. OK: none, wait on. PEER_FAILED, MISMATCH, ABORTED, CORRUPT: the call is over, and the
  // communicator with it. A wrong digest met by a try_ verb is reported here.
  // Every error names its rank and, for MISMATCH, both calls in words. Where what_came_counts() the
  // verbs still move what has come.
  virtual Status inspect(uint64_t now_ns) = 0;

  // To sleep: arm(), look at the streams once more, sleep(). What peers do after arm() ends the
  // sleep.
  virtual void arm() {}
  // Takes arm() back, when that look found something.
  virtual void disarm() {}
  // Sleeps until a peer may have sent or received something, or until `until_ns`. May return early.
  virtual void sleep(uint64_t until_ns) = 0;

  // The last call in which `peer` was seen, if any: for the sentence of a TIMEOUT.
  virtual std::optional<CallMark> last_seen(int peer) const = 0;

  // Notifies every peer that the communicator is over and why: each gets `reason` from inspect().
  // The first abort wins. Any thread, never blocks; afterwards inspect() returns an error here too.
  virtual void abort(const Status& reason) = 0;

  // The process exits, perhaps within a signal handler; `in_call`: before the link's calls have
  // ended, so that peers may wait for this rank in vain. Must neither allocate nor wait; without it
  // peers take the rank for dead once its process has ended.
  virtual void leave(bool in_call) noexcept { (void)in_call; }

  // Shows `note` to every peer that can be reached without waiting, in place of the one before; it
  // may be posted again until it has reached all. An empty note: this rank has nothing to say. Any
  // thread, one at a time, also while another uses the link.
  virtual void post_note(const Note& note) { (void)note; }
  // What `peer` shows, as of the last inspect(); possibly an older one, never parts of two.
  virtual Note read_note(int peer) const {
    (void)peer;
    return {};
  }

  // Mail: texts from rank to rank in order, beside the calls, also when these have failed: for
  // those that go on (lib/comm/survivors.h). While no call is in progress. post_mail() never
  // blocks: what cannot go yet goes when that peer's mail is taken, and that to all before
  // sleep_for_mail() sleeps. take_mail(): false: there is none.
  static constexpr size_t most_mail_bytes = Exchange::most_text_bytes + 64;
  virtual void post_mail(int peer, std::string_view text) = 0;
  virtual bool take_mail(int peer, std::string* text) = 0;
  // All that was posted has gone out.
  virtual bool mail_is_out(int peer) const = 0;
  // Of a peer that is not here all mail can be taken after this, if it is not lost.
  virtual Presence presence(int peer, uint64_t now_ns) = 0;
  virtual bool is_on_other_host(int peer) const {
    (void)peer;
    return false;
  }
  // As sleep(), for mail, and needs no arm().
  virtual void sleep_for_mail(uint64_t until_ns) = 0;
  // This rank goes on in a communicator of its own: peers that are not in it find it lost once it
  // has left.
  virtual void move_on() = 0;

  // How often a waiting rank looks before it yields, at most: a look at a socket is a system call,
  // so as many looks as at memory would take milliseconds.
  virtual uint32_t most_spins() const { return 100; }

  // This link, if it is over memory that its ranks share; else null.
  virtual slots::SlotLink* slots() { return nullptr; }
};

}  // namespace tutti
