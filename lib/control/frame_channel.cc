#include "lib/control/frame_channel.h"

#include <poll.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "lib/base/clock.h"
#include "lib/control/socket.h"

namespace tutti {

namespace {

constexpr size_t piece_bytes = 16 << 10;

bool again(int error_number) { return error_number == EAGAIN || error_number == EWOULDBLOCK; }

}  // namespace

void FrameChannel::queue(wire::Header header, std::string_view payload) {
  if (flushed()) {
    out_.clear();
    out_begin_ = 0;
  }
  header.length = uint32_t(payload.size());
  const wire::HeaderBytes bytes = wire::encode(header);
  out_.reserve(out_.size() + bytes.size() + payload.size());  // all of the frame or nothing
  out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  out_.append(payload);
}

bool FrameChannel::flush() {
  while (!flushed()) {
    const iovec rest{out_.data() + out_begin_, out_.size() - out_begin_};
    const ssize_t sent = socket_.send({&rest, 1});
    if (sent >= 0) {
      out_begin_ += size_t(sent);
    } else if (errno != EINTR) {
      const int error_number = errno;
      if (again(error_number)) return true;
      if (error_number != EPIPE) std::atomic_ref(send_error_).store(error_number);
      return false;
    }
  }
  return true;
}

FrameChannel::Got FrameChannel::take(wire::Header* header, std::string_view* payload, Status* why) {
  if (in_.size() - in_begin_ < wire::header_bytes) return Got::nothing;
  const auto* at = reinterpret_cast<const uint8_t*>(in_.data()) + in_begin_;
  *why = wire::parse(std::span<const uint8_t, wire::header_bytes>(at, wire::header_bytes), header);
  if (!why->ok()) return Got::broken;
  if (header->length > most_payload_) {
    *why = {TUTTI_CORRUPT, "a frame is longer than it may be here"};
    return Got::broken;
  }
  if (in_.size() - in_begin_ - wire::header_bytes < header->length) return Got::nothing;
  *payload = std::string_view(in_).substr(in_begin_ + wire::header_bytes, header->length);
  in_begin_ += wire::header_bytes + header->length;
  return Got::frame;
}

FrameChannel::Got FrameChannel::read(wire::Header* header, std::string_view* payload, Status* why) {
  for (;;) {
    if (const Got got = take(header, payload, why); got != Got::nothing) return got;
    in_.erase(0, in_begin_);
    in_begin_ = 0;
    const size_t had = in_.size();
    in_.resize(had + piece_bytes);
    const iovec room{in_.data() + had, piece_bytes};
    const ssize_t received = socket_.receive({&room, 1});
    const int error_number = errno;
    in_.resize(had + (received > 0 ? size_t(received) : 0));
    if (received > 0) continue;
    if (received == 0 || error_number == EPIPE) return ended(why);
    if (error_number == ECONNRESET) return Got::reset;
    if (again(error_number)) return Got::nothing;
    if (error_number == EINTR) continue;
    if (error_number == EBADMSG) {
      *why = {TUTTI_CORRUPT, changed_on_the_way};
      return Got::broken;
    }
    *why = {TUTTI_PEER_FAILED, std::generic_category().message(error_number)};
    return Got::broken;
  }
}

FrameChannel::Got FrameChannel::ended(Status* why) {
  const int error_number = std::atomic_ref(send_error_).load();
  if (error_number == 0) return Got::closed;
  if (error_number == ECONNRESET) return Got::reset;
  *why = {TUTTI_PEER_FAILED, std::generic_category().message(error_number)};
  return Got::broken;
}

namespace {

bool has_arrived(FrameChannel& channel) {
  return !channel.flush() || (channel.flushed() && unacknowledged_bytes(channel.fd()) == 0);
}

}  // namespace

void let_arrive(std::vector<FrameChannel*> channels) {
  constexpr uint64_t most_ns = 250'000'000, step_ns = 1'000'000;
  const uint64_t until_ns = now_ns() + most_ns;
  std::vector<pollfd> set;
  for (bool in_time = true; in_time; in_time = now_ns() < until_ns) {
    std::erase_if(channels, [](FrameChannel* channel) { return has_arrived(*channel); });
    if (channels.empty()) return;
    set.clear();
    // Who has closed its end needs nothing more.
    for (const FrameChannel* channel : channels) set.push_back({channel->fd(), POLLRDHUP, 0});
    if (!wait_for_events(set, now_ns() + step_ns).ok()) return;
    for (size_t k = set.size(); k-- > 0;)
      if (set[k].revents != 0) channels.erase(channels.begin() + ptrdiff_t(k));
  }
}

}  // namespace tutti
