// One pair's data over UCX.
//
// Sending: what is offered is copied into memory of the stream and sent as active messages, each
// with a frame's header. A short piece goes at once, as long as the receiver has said that it has
// room, and counts as taken then; a long one, and a short one that has no room, goes by rendezvous
// and counts as taken when the peer has fetched it. What UCX still holds then, tender.h sees to: so
// a rank that has ended its call never holds up a peer.
//
// Receiving: short pieces are copied out of UCX's memory as they come, long ones are fetched into
// memory of the stream. Nothing of UCX ever touches the caller's memory, which is the caller's
// again when a call fails, whatever the network still does then.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "transports/tcp/data_stream.h"
#include "transports/ucx/queue.h"
#include "transports/ucx/ring.h"
#include "transports/ucx/worker.h"

namespace tutti::ucx {

class UcxStream final : public tcp::DataStream {
 public:
  // What precedes the payload: the frame's header and how much of what came this way has been
  // taken, in the currency of room().
  static constexpr size_t header_bytes = wire::header_bytes + 8;
  // Of the other messages, which have no payload: communicator, sender, and what it says.
  static constexpr size_t note_bytes = 25, greeting_bytes = 16;
  static constexpr size_t most_short_bytes = 16 << 10;
  static constexpr size_t most_long_bytes = 512 << 10;

  UcxStream(Worker& worker, int peer, bool across_hosts);
  ~UcxStream() override;

  Status connect(const std::string& address);
  // Tells the peer that this rank is there, and whether the peer has.
  void greet();
  bool greeted() const { return greeted_; }

  size_t send(const CallMark& mark, const std::byte* data, size_t bytes) override;
  size_t receive(const CallMark& mark, std::byte* to, size_t most) override;
  std::span<const std::byte> peek(const CallMark& mark, size_t most, size_t granule) override;
  void consume(size_t bytes) override;

  bool ended() const override { return left_ns_ != 0 && announced_ >= end_ && frames_.empty(); }
  bool send_failed() const override;
  const Status& corrupt() const override;
  const wire::Header* stranger() const override;
  void forget_stranger() override { stranger_ = false; }
  std::optional<CallMark> latest() const override;
  uint64_t sent() const override { return sent_; }
  uint64_t delivered() const override { return announced_ - unread_; }
  void ends_at(uint64_t bytes) override;

  // From the worker.
  // True: `payload` describes what will be fetched, and stays.
  bool take_frame(const uint8_t* header, std::byte* payload, size_t length, bool by_rendezvous);
  void take_note(uint64_t freed, uint8_t says);
  void take_greeting();
  void fail(ucs_status_t why);
  Status failure() const;
  void advance();
  // Says that this rank leaves; the peer answers when it has got all that came before.
  void leave() { tell(Says::leaves); }
  void answer() {
    if (std::exchange(owes_answer_, false)) tell(Says::answer);
  }
  // Nothing of what was sent is wanted any more, or all of it has arrived.
  bool settled() const { return failed_ != UCS_OK || left_ns_ != 0 || peer_leaves_ || answered_; }
  // Whether UCX has yet to end something for this stream.
  bool busy() const;

 private:
  static constexpr size_t most_pieces = 8;
  static constexpr size_t ring_bytes = 2 << 20;
  // A sender may be one set of pieces ahead of what this rank knows to be fetched.
  static constexpr size_t most_unfetched = 2 * most_pieces;
  // Room of the receiver for short pieces, and what one of them takes of it.
  static constexpr uint64_t window = 64 << 10;
  static constexpr uint64_t room(size_t bytes) { return (bytes + 63) / 64 * 64 + 64; }

  // All that UCX reads and writes for this stream.
  struct Memory {
    Ring outgoing{ring_bytes}, short_frames{2 * window}, long_frames{ring_bytes};
    std::array<std::array<uint8_t, header_bytes>, most_pieces> headers;
    std::array<std::array<uint8_t, note_bytes>, 3> notes{};  // one of each kind
    std::array<uint8_t, greeting_bytes> greeting{};
  };
  // Of what was offered, on its way.
  struct Piece {
    size_t bytes = 0;
    size_t taken = 0;  // of the ring
    bool by_rendezvous = false;
    Request request;
  };
  // What has come, or is announced.
  struct Frame {
    enum class State { announced, coming, here };
    wire::Header header;
    State state = State::here;
    const std::byte* at = nullptr;
    size_t left = 0;   // not yet read
    size_t taken = 0;  // of the ring that it lies in
    bool by_rendezvous = false;
    void* description = nullptr;  // UCX's, while it is announced
    Request request;
  };

  void reap();
  bool begin_piece(const CallMark& mark, const std::byte* data, size_t bytes);
  Piece& piece(size_t place) { return pieces_[(first_piece_ + place) % most_pieces]; }
  bool has_ended(Piece* piece);
  Request send_alone(Worker::Kind kind, std::span<const uint8_t> header);
  void advance_frame(Frame* frame);
  // The frame to read from; nullptr: it is not there, or not of this call.
  Frame* front(const CallMark& mark);
  Frame* await_front(const CallMark& mark);
  void read(Frame* frame, size_t bytes);
  void gather(const CallMark& mark, size_t wanted);
  enum class Says : uint8_t { room, leaves, answer };
  void tell(Says what);
  void take_room(uint64_t freed);
  void tell_room();
  Status check(const wire::Header& header, size_t length, bool by_rendezvous) const;

  Worker& worker_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  int peer_;
  bool across_hosts_;
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_t failed_ = UCS_OK;
  bool greeted_ = false;
  Request greeting_request_;

  std::array<Piece, most_pieces> pieces_;
  size_t first_piece_ = 0, piece_count_ = 0;
  size_t counted_ = 0;    // pieces at the front whose bytes count as taken
  size_t under_way_ = 0;  // bytes of the others
  size_t taken_ = 0;      // bytes that count as taken and were not yet reported
  uint64_t sent_ = 0;
  uint64_t room_used_ = 0, room_freed_ = 0;  // at the peer, since the start

  Queue<Frame> frames_;
  wire::Header latest_;
  uint64_t announced_ = 0;
  size_t unread_ = 0;        // of what was announced
  uint64_t room_taken_ = 0;  // of the own room, since the start
  uint64_t room_returned_ = 0;
  uint64_t room_told_ = 0;
  std::array<Request, 3> note_requests_;
  size_t unfetched_ = 0;  // frames that are not here
  // Elements whose bytes came in two frames, or lie askew in one.
  std::vector<std::byte> gathered_;
  size_t gathered_begin_ = 0;
  bool peer_leaves_ = false, owes_answer_ = false, answered_ = false;
  bool stranger_ = false;
  Status corrupt_;

  uint64_t left_ns_ = 0;  // when the peer said goodbye
  uint64_t end_ = 0;      // how much it sent in all
};

}  // namespace tutti::ucx
