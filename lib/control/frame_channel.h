// Whole frames over a socket that never blocks: the control frames beside the data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/control/secure_socket.h"
#include "lib/control/wire.h"

namespace tutti {

class FrameChannel {
 public:
  enum class Got { frame, nothing, closed, reset, broken };

  FrameChannel() = default;
  // Refuses frames with more payload than `most_payload`.
  FrameChannel(SecureSocket socket, uint32_t most_payload)
      : socket_(std::move(socket)), most_payload_(most_payload) {}

  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }
  Integrity integrity() const { return socket_.integrity(); }

  // Appends a frame to the send queue; header.length is set from the payload.
  void queue(wire::Header header, std::string_view payload = {});
  // Sends what the socket takes. False: the connection is broken.
  bool flush();
  bool flushed() const { return out_begin_ == out_.size(); }

  // The next frame, once it is whole. `closed`: the peer has closed; `reset`: its kernel knows
  // nothing of the connection any more, as where the peer has ended with something unread, or it
  // had given the connection up; `broken`: *why says what is wrong. The last two be it that flush()
  // has found so. *payload is valid until the next read().
  Got read(wire::Header* header, std::string_view* payload, Status* why);

 private:
  Got take(wire::Header* header, std::string_view* payload, Status* why);
  Got ended(Status* why);

  SecureSocket socket_;
  uint32_t most_payload_ = 0;
  int send_error_ = 0;  // errno; the kernel tells it once, then as if the peer had closed
  std::string out_;
  size_t out_begin_ = 0;
  std::string in_;       // grows with the bytes that have come, never by a header's length
  size_t in_begin_ = 0;  // frames before it were read
};

// Waits until the hosts at the other ends have acknowledged what was queued on each of `channels`,
// or do not take it, but no longer than it takes a kernel to send again what was lost, once. To be
// called before they are closed: what comes to a closed socket has its kernel discard what it has
// still to send again.
void let_arrive(std::vector<FrameChannel*> channels);

}  // namespace tutti
