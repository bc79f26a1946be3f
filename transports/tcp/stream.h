// One pair's data connection: messages cut into frames, each with the mark of its call.
//
// Sending: a frame covers what the caller offers, up to 1 MiB; where the kernel takes only a part
// of it, the next offer of the same message continues the frame.
//
// Receiving: the payload of a frame whose header has come goes straight into the caller's memory.
// Otherwise bytes go through a staging buffer, which takes several small frames with one system
// call and holds what is peeked at. There, an element split across two frames is made contiguous by
// moving its first part over the second frame's header.
//
// Where the socket carries records, payload has been opened, and so is what the peer has sealed,
// before it is given on or counts as received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lib/control/socket.h"
#include "lib/tuning/tuning.h"
#include "transports/stream/data_stream.h"
#include "transports/stream/late_socket.h"

namespace tutti::tcp {

class Stream final : public DataStream {
 public:
  Stream(uint64_t comm, int self, int peer, const Tuning& tuning)
      : comm_(comm),
        self_(self),
        peer_(peer),
        small_bytes_(tuning.tcp_small_bytes),
        small_stage_bytes_(tuning.tcp_small_stage_bytes),
        header_stage_bytes_(tuning.tcp_header_stage_bytes),
        stage_bytes_(tuning.tcp_stage_bytes) {}
  ~Stream() override { close_in_order(socket_.get()); }

  int fd() const override { return socket_.get(); }
  LateSocket* late() override { return &socket_; }

  size_t send(const CallMark& mark, const std::byte* data, size_t bytes) override;
  size_t receive(const CallMark& mark, std::byte* to, size_t most) override;
  std::span<const std::byte> peek(const CallMark& mark, size_t most, size_t granule) override;
  void consume(size_t bytes) override;
  const wire::Header* next() override;

  bool ended() const override { return ended_; }
  bool send_failed() const override { return send_failed_; }
  const Status& corrupt() const override { return corrupt_; }
  // One that another call has taken since is none.
  const wire::Header* mismatched_frame() const override {
    return mismatched_ && carried_ + frame_left_ != 0 ? &frame_ : nullptr;
  }
  void forget_stranger() override { mismatched_ = false; }

  std::optional<CallMark> latest() const override;
  uint64_t sent() const override { return sent_; }
  uint64_t delivered() const override { return announced_ - frame_left_ - carried_; }

 private:
  size_t staged() const { return tail_ - head_; }
  // Staged payload, without a gap.
  size_t ready() const { return std::min(carried_ + frame_left_, staged()); }
  bool usable() const { return !ended_ && corrupt_.ok(); }
  bool belongs_to(const CallMark& mark);
  // Reads the next header out of the buffer; false: it has not come, or is corrupt.
  bool next_frame();
  Status check(const wire::Header& header) const;
  // Receives until the header of the next frame is there; false: it is not.
  bool await_frame(size_t most);
  // Receives once, so that the buffer holds at most `most` bytes. False: nothing has come.
  bool fill(size_t most);
  bool received(ssize_t result);
  size_t receive_directly(std::byte* to, size_t bytes);
  void align(size_t granule);

  LateSocket socket_;
  uint64_t comm_;
  int self_, peer_;
  // Up to small_bytes_ messages are received through the staging buffer, many with one system call;
  // above it the buffer takes only headers, so that the payload is not copied twice.
  const size_t small_bytes_, small_stage_bytes_, header_stage_bytes_, stage_bytes_;

  wire::HeaderBytes out_header_{};
  size_t out_header_left_ = 0;  // unsent bytes of the frame that was begun: header, then payload
  size_t out_left_ = 0;
  uint64_t sent_ = 0;  // payload since the start
  bool send_failed_ = false;

  std::unique_ptr<std::byte[]> stage_;
  size_t head_ = 0, tail_ = 0;
  wire::Header frame_;      // the latest
  size_t frame_left_ = 0;   // bytes of its payload not yet taken, staged or not
  size_t carried_ = 0;      // bytes of an earlier frame, at head_: the first part of an element
  uint64_t announced_ = 0;  // payload of all frames so far
  bool ended_ = false;
  bool mismatched_ = false;
  Status corrupt_;
};

}  // namespace tutti::tcp
