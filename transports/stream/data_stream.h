// One pair's data, whatever carries it: an ordered stream of bytes each way, cut into frames, each
// with the mark of its call (lib/control/wire.h). StreamLink makes a Link of such streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "lib/base/status.h"
#include "lib/control/wire.h"

namespace tutti::tcp {

class LateSocket;

class DataStream {
 public:
  virtual ~DataStream() = default;

  // As in Link; `mark` is this rank's call.
  virtual size_t send(const CallMark& mark, const std::byte* data, size_t bytes) = 0;
  virtual size_t receive(const CallMark& mark, std::byte* to, size_t most) = 0;
  virtual std::span<const std::byte> peek(const CallMark& mark, size_t most, size_t granule) = 0;
  virtual void consume(size_t bytes) = 0;
  // Between messages: the next frame, of which only the header must have come; else null.
  virtual const wire::Header* next() = 0;

  // What the verbs above met, for inspect() to report.
  virtual bool ended() const = 0;  // the peer sends no more, all that came was taken
  virtual bool send_failed() const = 0;
  virtual const Status& corrupt() const = 0;  // OK: nothing is
  // The next frame, if a receive found that it belongs to another call; else null.
  virtual const wire::Header* mismatched_frame() const = 0;
  virtual void forget_stranger() = 0;

  // The call of the latest frame.
  virtual std::optional<CallMark> latest() const = 0;
  // Bytes of payload since the start: sent to the peer, and taken of what it sent.
  virtual uint64_t sent() const = 0;
  virtual uint64_t delivered() const = 0;

  // The socket to watch; -1: there is none, yet or because the Carrier has the descriptor.
  virtual int fd() const { return -1; }
  // Where its connection is made at first use; else null.
  virtual LateSocket* late() { return nullptr; }
  // The peer has freed the communicator, having sent so many bytes in all.
  virtual void ends_at(uint64_t bytes) { static_cast<void>(bytes); }
};

// What carries the data of all pairs of a link, where they share one carrier (UCX's worker) instead
// of having a socket each.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // To be held while the streams or the carrier are used: a thread of the carrier may use them too.
  virtual std::unique_lock<std::mutex> hold() = 0;
  // Before the link goes: from here on the carrier's thread does not use it.
  virtual void close() = 0;

  // Becomes readable at the first event after an arm() that returned true.
  virtual int fd() const = 0;
  // Makes progress on all transfers, without waiting.
  virtual void advance() = 0;
  // False: there is an event already.
  virtual bool arm() = 0;
  // The longest that the next sleep may last.
  virtual uint64_t most_sleep_ns() const = 0;
};

}  // namespace tutti::tcp
