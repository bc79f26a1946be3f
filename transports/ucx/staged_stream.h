// A stream through staging buffers on both sides.
//
// Sending: what is offered is copied and sent. A short piece goes eagerly while there is credit
// from the receiver (its room) and counts as taken at once; a long one, or a short one without
// credit, goes by rendezvous and counts as taken when the peer has fetched it.
//
// Receiving: eager pieces are copied out of UCX's memory as they come, the others are fetched into
// the staging buffer. UCX never touches the caller's memory, which is therefore the caller's again
// when a call fails, whatever the network still does.
#pragma once

#include <vector>

#include "transports/ucx/ring.h"
#include "transports/ucx/stream.h"

namespace tutti::ucx {

class StagedStream final : public UcxStream {
 public:
  static constexpr size_t most_short_bytes = 16 << 10;

  StagedStream(Worker& worker, int peer, bool across_hosts)
      : UcxStream(worker, peer, across_hosts, UCS_MEMORY_TYPE_HOST) {}
  ~StagedStream() override { worker_.keep(rings_); }

  size_t receive(const CallMark& mark, std::byte* to, size_t most) override;
  std::span<const std::byte> peek(const CallMark& mark, size_t most, size_t granule) override;
  void consume(size_t bytes) override;
  void advance() override;

 private:
  static constexpr size_t ring_bytes = 2 << 20;
  // The receiver's room for eager pieces (the credit of the sender), and what a piece takes of it.
  static constexpr uint64_t window = 64 << 10;
  static constexpr uint64_t room(size_t bytes) { return (bytes + 63) / 64 * 64 + 64; }

  struct Rings {
    Ring outgoing{ring_bytes}, short_frames{2 * window}, long_frames{ring_bytes};
  };

  bool begin_piece(const CallMark& mark, const std::byte* data, size_t bytes) override;
  void release(const Piece& piece) override { rings_->outgoing.release(piece.taken); }
  const char* refuse(size_t length, bool by_rendezvous) const override;
  void keep(Frame* frame, const std::byte* payload) override;
  void advance_frame(Frame* frame);
  // The frame to read from; nullptr: it has not come, or is not of this call.
  Frame* front(const CallMark& mark);
  Frame* await_front(const CallMark& mark);
  void read(Frame* frame, size_t bytes);
  void gather(const CallMark& mark, size_t wanted);
  void tell_room();

  std::shared_ptr<Rings> rings_ = std::make_shared<Rings>();
  uint64_t room_taken_ = 0;  // of this rank's room, since the start
  // Elements that were split across two frames, or are misaligned in one.
  std::vector<std::byte> gathered_;
  size_t gathered_begin_ = 0;
};

}  // namespace tutti::ucx
