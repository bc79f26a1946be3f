#include "transports/tcp/stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti::tcp {

namespace {

bool again(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

// ---------------------------------------------------------------- sending

size_t Stream::send(const CallMark& mark, const std::byte* data, size_t bytes) {
  if (send_failed_ || bytes == 0) return 0;
  const bool starts = out_header_left_ == 0 && out_left_ == 0;
  if (starts) {
    wire::Header header;
    header.type = wire::Type::data;
    header.comm = comm_;
    header.epoch = mark.epoch;
    header.stream = sent_;
    header.signature = mark.signature;
    header.src = uint16_t(self_);
    header.digest = mark.digest;
    header.length = uint32_t(std::min<size_t>(bytes, wire::most_data_bytes));
    out_header_ = wire::encode(header);
    out_header_left_ = wire::header_bytes;
    out_left_ = header.length;
  }
  iovec parts[2] = {{out_header_.data() + wire::header_bytes - out_header_left_, out_header_left_},
                    {const_cast<std::byte*>(data), std::min(bytes, out_left_)}};
  const std::span<const iovec> both(parts);
  const ssize_t result = socket_.send(out_header_left_ > 0 ? both : both.subspan(1));
  if (result < 0) {
    if (!again(errno)) send_failed_ = true;
    const bool holds = socket_.holds();
    // Nothing was sent, nor will be: begin again.
    if (starts && !holds) out_header_left_ = out_left_ = 0;
    if (holds) socket_.take_in();
    return 0;
  }
  const size_t of_header = std::min(size_t(result), out_header_left_);
  const size_t taken = size_t(result) - of_header;
  out_header_left_ -= of_header;
  out_left_ -= taken;
  sent_ += taken;
  return taken;
}

// ---------------------------------------------------------------- receiving

std::optional<CallMark> Stream::latest() const {
  if (announced_ == 0) return std::nullopt;
  return frame_.mark();
}

bool Stream::belongs_to(const CallMark& mark) {
  if (frame_.digest == mark.digest) [[likely]]
    return true;
  mismatched_ = true;
  return false;
}

Status Stream::check(const wire::Header& header) const {
  const char* wrong = nullptr;
  if (header.type != wire::Type::data || header.length == 0) {
    wrong = "a frame that does not belong among the data";
  } else if (header.comm != comm_) {
    wrong = "a frame of another communicator";
  } else if (header.src != uint16_t(peer_)) {
    wrong = "a frame of another rank";
  } else if (header.stream != announced_) {
    wrong = "a frame that does not follow the one before";
  } else if (carried_ > 0 && header.digest != frame_.digest) {
    wrong = "a frame of another call within an element";
  }
  if (wrong == nullptr) return {};
  return {TUTTI_CORRUPT, rank_name(peer_) + " sent " + wrong, peer_};
}

bool Stream::next_frame() {
  if (staged() < carried_ + wire::header_bytes) return false;
  const auto* at = reinterpret_cast<const uint8_t*>(stage_.get() + head_ + carried_);
  wire::Header header;
  corrupt_ =
      wire::parse(std::span<const uint8_t, wire::header_bytes>(at, wire::header_bytes), &header);
  if (corrupt_.ok()) {
    corrupt_ = check(header);
  } else {
    corrupt_ = {corrupt_.code(), "from rank " + std::to_string(peer_) + ": " + corrupt_.text(),
                peer_};
  }
  if (!corrupt_.ok()) return false;
  frame_ = header;
  std::memmove(stage_.get() + head_ + wire::header_bytes, stage_.get() + head_, carried_);
  head_ += wire::header_bytes;
  frame_left_ = frame_.length;
  mismatched_ = false;  // of the frame before
  announced_ += frame_.length;
  return true;
}

bool Stream::received(ssize_t result) {
  if (result > 0) return true;
  if (result < 0 && errno == EBADMSG) {
    corrupt_ = {TUTTI_CORRUPT, "from " + rank_name(peer_) + ": " + changed_on_the_way, peer_};
  } else if (result == 0 || !again(errno)) {
    ended_ = true;
  }
  return false;
}

bool Stream::fill(size_t most) {
  if (!stage_) stage_ = std::make_unique_for_overwrite<std::byte[]>(stage_bytes_);
  // What is left there is at most a part of an element and a part of a header.
  if (head_ > 0) {
    std::memmove(stage_.get(), stage_.get() + head_, staged());
    tail_ -= head_;
    head_ = 0;
  }
  const iovec room{stage_.get() + tail_, std::max(most, tail_ + 1) - tail_};
  const ssize_t result = socket_.receive({&room, 1});
  if (!received(result)) return false;
  tail_ += size_t(result);
  return true;
}

size_t Stream::receive_directly(std::byte* to, size_t bytes) {
  head_ = tail_ = 0;
  const iovec parts[2] = {{to, bytes}, {stage_.get(), header_stage_bytes_}};
  const ssize_t result = socket_.receive(parts);
  if (!received(result)) return 0;
  const size_t taken = std::min(size_t(result), bytes);
  tail_ = size_t(result) - taken;
  frame_left_ -= taken;
  return taken;
}

bool Stream::await_frame(size_t most) {
  while (carried_ + frame_left_ == 0) {
    if (!usable()) return false;
    if (next_frame()) break;
    if (!corrupt_.ok() || !fill(most)) return false;
  }
  return true;
}

const wire::Header* Stream::next() { return await_frame(header_stage_bytes_) ? &frame_ : nullptr; }

size_t Stream::receive(const CallMark& mark, std::byte* to, size_t most) {
  if (most == 0) return 0;
  if (!await_frame(most <= small_bytes_ ? small_stage_bytes_ : header_stage_bytes_)) return 0;
  if (!belongs_to(mark)) return 0;
  if (const size_t bytes = std::min(ready(), most); bytes > 0) {
    std::memcpy(to, stage_.get() + head_, bytes);
    consume(bytes);
    return bytes;
  }
  if (!usable()) return 0;
  return receive_directly(to, std::min(most, frame_left_));
}

void Stream::align(size_t granule) {
  if (head_ % granule == 0) return;
  std::memmove(stage_.get(), stage_.get() + head_, staged());
  tail_ -= head_;
  head_ = 0;
}

std::span<const std::byte> Stream::peek(const CallMark& mark, size_t most, size_t granule) {
  if (most == 0) return {};
  for (;;) {
    if (carried_ + frame_left_ > 0 && !belongs_to(mark)) return {};
    if (const size_t bytes = ready(); bytes >= granule) {
      align(granule);
      const size_t whole = std::min(bytes, most);
      return {stage_.get() + head_, whole - whole % granule};
    }
    if (!usable()) return {};
    if (ready() == carried_ + frame_left_) {  // the element goes on in the next frame
      carried_ += frame_left_;
      frame_left_ = 0;
      if (next_frame()) continue;
      if (!corrupt_.ok()) return {};
    }
    if (!fill(stage_bytes_)) return {};
  }
}

void Stream::consume(size_t bytes) {
  const size_t of_carried = std::min(bytes, carried_);
  carried_ -= of_carried;
  frame_left_ -= bytes - of_carried;
  head_ += bytes;
}

}  // namespace tutti::tcp
