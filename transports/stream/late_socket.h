// The bytes of one pair's data, whose connection is made at first use. What is sent before that
// goes over the control channel, up to early_bytes: so a short message needs nobody at the other
// end. Each direction moves to the connection by itself, with a frame behind its last early bytes.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lib/control/secure_socket.h"
#include "lib/control/wire.h"

namespace tutti::tcp {

// The pair's control channel, as a LateSocket uses it.
class EarlyPath {
 public:
  virtual ~EarlyPath() = default;
  // Whether all frames have gone out, as far as that is possible now.
  virtual bool is_out() = 0;
  virtual void post(wire::Type type, std::string_view payload) = 0;
  // Takes what has come; of it, come() and the like are told. And goes on with the connection.
  virtual void look() = 0;
  // This rank sends: a connection should be made.
  virtual void want() = 0;
};

class LateSocket {
 public:
  void begin(EarlyPath* path) { path_ = path; }
  void connect(SecureSocket socket) { socket_ = std::move(socket); }
  bool is_connected() const { return bool(socket_); }

  // What the peer's frames say. False: they say what cannot be.
  bool come(std::string_view bytes);
  bool peer_moves();
  bool has_peer_moved() const { return peer_moved_; }
  // The peer sends no more frames; there_is_more: but the connection is still to be made, and it
  // has sent over it.
  void peer_leaves(bool there_is_more) {
    ended_ = !there_is_more;
    left_ = true;
  }

  // As in SecureSocket.
  int get() const { return socket_.get(); }
  ssize_t send(std::span<const iovec> parts) {
    if (sends_directly_) [[likely]]
      return socket_.send(parts);
    return send_early(parts);
  }
  bool holds() const { return held_ > 0 || socket_.holds(); }
  ssize_t receive(std::span<const iovec> parts) {
    if (receives_directly_) [[likely]]
      return socket_.receive(parts);
    return receive_early(parts);
  }
  void take_in() {
    if (socket_) socket_.take_in();
  }

 private:
  ssize_t send_early(std::span<const iovec> parts);
  ssize_t receive_early(std::span<const iovec> parts);

  SecureSocket socket_;
  EarlyPath* path_ = nullptr;
  bool sends_directly_ = false, receives_directly_ = false;
  bool wanted_ = false, moving_ = false, peer_moved_ = false, left_ = false, ended_ = false;
  size_t sent_ = 0, came_ = 0;  // of early_bytes
  size_t held_ = 0;             // offered, and in a frame that has not gone out: not taken yet
  std::string inbox_;
  size_t inbox_begin_ = 0;
};

}  // namespace tutti::tcp
