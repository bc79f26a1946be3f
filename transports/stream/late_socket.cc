#include "transports/stream/late_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::tcp {

namespace {

ssize_t not_now(int error_number) {
  errno = error_number;
  return -1;
}

size_t size_of(std::span<const iovec> parts) {
  size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

// What a frame with so much payload takes of the early bytes.
size_t cost(size_t bytes) { return bytes + wire::header_bytes; }

}  // namespace

ssize_t LateSocket::send_early(std::span<const iovec> parts) {
  if (!wanted_) {
    wanted_ = true;
    path_->want();
  }
  if (left_ && !socket_) return not_now(EPIPE);
  if (!path_->is_out()) return not_now(EAGAIN);
  const size_t offered = size_of(parts);
  if (held_ > 0) {
    const size_t taken = std::min(held_, offered);
    held_ -= taken;
    return ssize_t(taken);
  }
  if (socket_) {
    if (!moving_ && !left_) path_->post(wire::Type::moved, {});
    moving_ = true;
    if (!path_->is_out()) return not_now(EAGAIN);
    sends_directly_ = true;
    return socket_.send(parts);
  }
  if (offered == 0 || cost(sent_) >= wire::early_bytes) {
    path_->look();
    return not_now(EAGAIN);
  }
  std::string bytes;
  size_t room = std::min(offered, wire::early_bytes - cost(sent_));
  bytes.reserve(room);
  sent_ += cost(room);
  for (const iovec& part : parts) {
    const size_t some = std::min(room, part.iov_len);
    bytes.append(static_cast<const char*>(part.iov_base), some);
    room -= some;
  }
  path_->post(wire::Type::early, bytes);
  if (path_->is_out()) return ssize_t(bytes.size());
  held_ = bytes.size();
  return not_now(EAGAIN);
}

bool LateSocket::come(std::string_view bytes) {
  came_ += cost(bytes.size());
  if (peer_moved_ || bytes.empty() || came_ > wire::early_bytes) return false;
  inbox_.append(bytes);
  return true;
}

bool LateSocket::peer_moves() { return !std::exchange(peer_moved_, true); }

ssize_t LateSocket::receive_early(std::span<const iovec> parts) {
  // Only once it is empty: so nothing that came is overtaken.
  if (inbox_begin_ == inbox_.size() && !peer_moved_) path_->look();
  if (inbox_begin_ < inbox_.size()) {
    const size_t begin = inbox_begin_;
    for (const iovec& part : parts) {
      const size_t some = std::min(part.iov_len, inbox_.size() - inbox_begin_);
      std::memcpy(part.iov_base, inbox_.data() + inbox_begin_, some);
      inbox_begin_ += some;
    }
    const size_t taken = inbox_begin_ - begin;
    if (inbox_begin_ == inbox_.size()) {
      inbox_.clear();
      inbox_begin_ = 0;
    }
    return ssize_t(taken);
  }
  if (peer_moved_ && socket_) {
    receives_directly_ = true;
    inbox_ = {};
    return socket_.receive(parts);
  }
  if (ended_) return 0;
  return not_now(EAGAIN);
}

}  // namespace tutti::tcp
