#include "transports/ucx/direct_stream.h"

#include <algorithm>

namespace tutti::ucx {

bool DirectStream::begin_piece(const CallMark& mark, const std::byte* data, size_t bytes) {
  if (!can_send()) return false;
  Piece piece;
  piece.bytes = std::min(bytes, most_long_bytes);
  piece.by_rendezvous = true;
  send_piece(mark, data, piece);
  return true;
}

const char* DirectStream::refuse(size_t, bool by_rendezvous) const {
  return by_rendezvous ? nullptr : "bytes through memory of the host";
}

void DirectStream::advance() {
  if (unfetched_ == 0) return;
  for (size_t i = 0; i < frames_.size(); ++i) {
    if (frames_[i].state == Frame::State::coming) look_whether_here(&frames_[i]);
  }
}

// Fetches all announced frames of this call that fit, so that they are in flight together.
void DirectStream::fetch_all(const CallMark& mark, std::byte* to, size_t most) {
  if (next_of(mark) == nullptr || failed_ != UCS_OK) return;
  size_t ahead = 0;
  for (size_t i = 0; i < frames_.size(); ++i) {
    Frame& frame = frames_[i];
    if (frame.header.digest != mark.digest || frame.left > most - ahead) break;
    if (frame.state == Frame::State::announced) fetch(&frame, to + ahead);
    ahead += frame.left;
  }
  advance();
}

size_t DirectStream::receive(const CallMark& mark, std::byte* to, size_t most) {
  if (most == 0) return 0;
  worker_.progress();
  fetch_all(mark, to, most);
  size_t got = 0;
  while (next_of(mark) != nullptr && frames_[0].state == Frame::State::here) {
    got += frames_[0].left;
    frames_.pop();
  }
  unread_ -= got;
  return got;
}

std::span<const std::byte> DirectStream::peek(const CallMark&, size_t, size_t) {
  if (corrupt_.ok())
    corrupt_ = {TUTTI_INTERNAL, "ucx: memory of a GPU was to be combined by the host"};
  return {};
}

}  // namespace tutti::ucx
