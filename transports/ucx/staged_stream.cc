#include "transports/ucx/staged_stream.h"

#include <algorithm>
#include <cstring>

namespace tutti::ucx {

namespace {

// How many bytes of elements that cannot be read in place are gathered at once.
constexpr size_t gathered_bytes = 64 << 10;
// The largest alignment that a kernel may require.
constexpr size_t most_alignment = 16;

bool askew(const std::byte* at, size_t granule) {
  const size_t alignment = std::min(granule & (~granule + 1), most_alignment);
  return (reinterpret_cast<uintptr_t>(at) & (alignment - 1)) != 0;
}

}  // namespace

// ---------------------------------------------------------------- sending

bool StagedStream::begin_piece(const CallMark& mark, const std::byte* data, size_t bytes) {
  if (!can_send()) return false;
  size_t length = std::min(bytes, most_long_bytes);
  // With nothing in flight the first piece is short and goes eagerly, so that the stream takes it
  // even while the receiver makes no progress.
  const bool quiet = piece_count_ == 0 && room_used_ == room_freed_;
  if (quiet || bytes <= most_short_bytes) length = std::min(bytes, most_short_bytes);
  const bool short_one =
      length <= most_short_bytes && room_used_ - room_freed_ + room(length) <= window;
  const Ring::Reservation place = rings_->outgoing.reserve(length);
  if (place.at == nullptr) return false;
  std::memcpy(place.at, data, length);
  Piece piece;
  piece.bytes = length;
  piece.taken = place.taken;
  piece.by_rendezvous = !short_one;
  send_piece(mark, place.at, piece);
  if (short_one) room_used_ += room(length);
  return true;
}

// ---------------------------------------------------------------- receiving

const char* StagedStream::refuse(size_t length, bool by_rendezvous) const {
  if (by_rendezvous) return nullptr;
  if (length > most_short_bytes) return "a frame that is too long";
  const bool fits = room_taken_ + room(length) - room_returned_ <= window;
  return fits ? nullptr : "more than there is room for";
}

void StagedStream::keep(Frame* frame, const std::byte* payload) {
  const Ring::Reservation place = rings_->short_frames.reserve(frame->left);
  std::memcpy(place.at, payload, frame->left);
  frame->at = place.at;
  frame->taken = place.taken;
  room_taken_ += room(frame->left);
}

// In order, so that the frame that is read first gets its memory first.
void StagedStream::advance() {
  if (unfetched_ == 0) return;
  for (size_t i = 0; i < frames_.size(); ++i) {
    advance_frame(&frames_[i]);
    if (frames_[i].state == Frame::State::announced) return;
  }
}

void StagedStream::advance_frame(Frame* frame) {
  // After a failure nothing more is fetched, but fetches that are complete still count.
  if (frame->state == Frame::State::announced && failed_ == UCS_OK) {
    const Ring::Reservation place = rings_->long_frames.reserve(frame->left);
    if (place.at == nullptr) return;
    frame->taken = place.taken;
    fetch(frame, place.at);
  }
  if (frame->state == Frame::State::coming) look_whether_here(frame);
}

StagedStream::Frame* StagedStream::front(const CallMark& mark) {
  Frame* const frame = next_of(mark);
  if (frame == nullptr) return nullptr;
  advance();
  return frame->state == Frame::State::here ? frame : nullptr;
}

// As front(); if there is none, tries again after UCX's progress.
StagedStream::Frame* StagedStream::await_front(const CallMark& mark) {
  Frame* frame = front(mark);
  if (frame != nullptr || !corrupt_.ok()) return frame;
  worker_.progress();
  return front(mark);
}

void StagedStream::read(Frame* frame, size_t bytes) {
  frame->at += bytes;
  frame->left -= bytes;
  if (frame->left > 0) return;
  if (frame->by_rendezvous) {
    rings_->long_frames.release(frame->taken);
  } else {
    rings_->short_frames.release(frame->taken);
    room_returned_ += room(frame->header.length);
  }
  frames_.pop();
  tell_room();
}

void StagedStream::tell_room() {
  if (room_returned_ - room_told_ >= window / 4) tell(Says::room);
}

size_t StagedStream::receive(const CallMark& mark, std::byte* to, size_t most) {
  size_t got = 0;
  while (got < most) {
    size_t bytes = gathered_.size() - gathered_begin_;
    if (bytes > 0) {
      bytes = std::min(bytes, most - got);
      std::memcpy(to + got, gathered_.data() + gathered_begin_, bytes);
    } else {
      Frame* const frame = got == 0 ? await_front(mark) : front(mark);
      if (frame == nullptr) break;
      bytes = std::min(frame->left, most - got);
      std::memcpy(to + got, frame->at, bytes);
    }
    consume(bytes);
    got += bytes;
  }
  return got;
}

std::span<const std::byte> StagedStream::peek(const CallMark& mark, size_t most, size_t granule) {
  if (most == 0) return {};
  if (gathered_begin_ == gathered_.size()) {
    Frame* const frame = await_front(mark);
    if (frame == nullptr) return {};
    if (frame->left >= granule && !askew(frame->at, granule)) {
      const size_t whole = std::min(frame->left, most);
      return {frame->at, whole - whole % granule};
    }
  }
  gather(mark, std::min(most, std::max(granule, gathered_bytes - gathered_bytes % granule)));
  const size_t whole = std::min(gathered_.size() - gathered_begin_, most);
  return {gathered_.data() + gathered_begin_, whole - whole % granule};
}

void StagedStream::gather(const CallMark& mark, size_t wanted) {
  gathered_.erase(gathered_.begin(), gathered_.begin() + ptrdiff_t(gathered_begin_));
  gathered_begin_ = 0;
  while (gathered_.size() < wanted) {
    Frame* const frame = await_front(mark);
    if (frame == nullptr) return;
    const size_t bytes = std::min(frame->left, wanted - gathered_.size());
    gathered_.insert(gathered_.end(), frame->at, frame->at + bytes);
    read(frame, bytes);
  }
}

void StagedStream::consume(size_t bytes) {
  unread_ -= bytes;
  if (gathered_begin_ < gathered_.size()) {
    gathered_begin_ += bytes;
  } else {
    read(&frames_[0], bytes);
  }
}

}  // namespace tutti::ucx
