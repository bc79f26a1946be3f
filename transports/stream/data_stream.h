// One pair's data, whatever carries it: an ordered stream of bytes each way, cut into frames that
// have the mark of their call (lib/control/wire.h). StreamLink makes a Link of such streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "lib/base/status.h"
#include "lib/control/wire.h"

namespace tutti::tcp {

class DataStream {
 public:
  virtual ~DataStream() = default;

  // As in Link; `mark` is the own call.
  virtual size_t send(const CallMark& mark, const std::byte* data, size_t bytes) = 0;
  virtual size_t receive(const CallMark& mark, std::byte* to, size_t most) = 0;
  virtual std::span<const std::byte> peek(const CallMark& mark, size_t most, size_t granule) = 0;
  virtual void consume(size_t bytes) = 0;

  // What was met on the way, for inspect() to tell.
  virtual bool ended() const = 0;  // the peer sends no more, all that came was taken
  virtual bool send_failed() const = 0;
  virtual const Status& corrupt() const = 0;  // OK: nothing is
  // The frame that comes next, where it is not of the call that a receive was tried in.
  virtual const wire::Header* mismatched_frame() const = 0;
  virtual void forget_stranger() = 0;

  // The call of the latest frame.
  virtual std::optional<CallMark> latest() const = 0;
  // Payload since the start: what peers were sent, and what was taken of theirs.
  virtual uint64_t sent() const = 0;
  virtual uint64_t delivered() const = 0;

  // The socket to watch; -1: there is none, a Carrier is told of news.
  virtual int fd() const { return -1; }
  // The peer has freed the communicator, after it had sent so many bytes in all.
  virtual void ends_at(uint64_t bytes) { static_cast<void>(bytes); }
};

// What carries the data of all pairs of a link, where that is one thing and not a socket a pair.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // Whoever uses the streams or the carrier holds it: a thread of the carrier's may be at work.
  virtual std::unique_lock<std::mutex> hold() = 0;
  // The last use: from here on nobody else does.
  virtual void close() = 0;

  // Readable when there is news after an arm() that returned true.
  virtual int fd() const = 0;
  // Moves on what is on its way.
  virtual void advance() = 0;
  // False: there is news already.
  virtual bool arm() = 0;
  // The longest that a sleep may be now.
  virtual uint64_t most_sleep_ns() const = 0;
};

}  // namespace tutti::tcp
