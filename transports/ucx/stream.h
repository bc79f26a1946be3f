// One pair's data over UCX: each frame is an active message with a frame's header. Here is what the
// two kinds of streams share: connecting, returning credit (room) and leaving, the messages in
// flight, and the checks of what comes. How bytes get from the caller's memory into messages and
// back is in staged_stream.h and direct_stream.h.
//
// Bytes that count as taken but are still with UCX are sent by progress_thread.h, so a rank that
// has ended its call never holds up a peer.
#pragma once

#include <array>
#include <utility>

#include "transports/stream/data_stream.h"
#include "transports/ucx/queue.h"
#include "transports/ucx/worker.h"

namespace tutti::ucx {

class UcxStream : public tcp::DataStream {
 public:
  // What precedes the payload: the frame's header, and the credit that the sender has returned to
  // the receiver since the start.
  static constexpr size_t header_bytes = wire::header_bytes + 8;
  // The other messages have no payload. A note: communicator, sender, credit, what it says. A
  // greeting: communicator, sender.
  static constexpr size_t note_bytes = 25, greeting_bytes = 16;
  static constexpr size_t most_long_bytes = 512 << 10;

  ~UcxStream() override;

  Status connect(const std::string& address);
  // Sends the greeting; whether the peer's has come.
  void greet();
  bool greeted() const { return greeted_; }

  size_t send(const CallMark& mark, const std::byte* data, size_t bytes) override;
  const wire::Header* next() override;

  bool ended() const override { return left_ns_ != 0 && announced_ >= end_ && frames_.empty(); }
  bool send_failed() const override;
  const Status& corrupt() const override;
  const wire::Header* mismatched_frame() const override;
  void forget_stranger() override { mismatched_ = false; }
  std::optional<CallMark> latest() const override;
  uint64_t sent() const override { return sent_; }
  uint64_t delivered() const override { return announced_ - unread_; }
  void ends_at(uint64_t bytes) override;

  // Called by the worker.
  // True: `payload` is UCX's descriptor of a rendezvous, which the stream keeps.
  bool take_frame(const uint8_t* header, std::byte* payload, size_t length, bool by_rendezvous);
  void take_note(uint64_t freed, uint8_t says);
  void take_greeting();
  void fail(ucs_status_t why);
  Status failure() const;
  // Makes progress on what is being fetched.
  virtual void advance() = 0;
  // Notifies the peer that this rank leaves; the peer answers when all sent before has arrived.
  void leave() { tell(Says::leaves); }
  void answer() {
    if (std::exchange(owes_answer_, false)) tell(Says::answer);
  }
  // All that was sent has arrived, or the peer does not want it any more.
  bool settled() const { return failed_ != UCS_OK || left_ns_ != 0 || peer_leaves_ || answered_; }
  // Whether a send or a fetch of this stream is not complete.
  bool busy() const { return piece_count_ > 0 || unfetched_ > 0; }

 protected:
  static constexpr size_t most_pieces = 8;
  // A sender may start most_pieces more before this rank sees that its own fetches are complete.
  static constexpr size_t most_unfetched = 2 * most_pieces;

  // A frame that has come, or was announced by a rendezvous.
  struct Frame {
    enum class State { announced, coming, here };
    wire::Header header;
    State state = State::here;
    const std::byte* at = nullptr;
    size_t left = 0;   // not yet read
    size_t taken = 0;  // of the ring that it lies in
    bool by_rendezvous = false;
    void* description = nullptr;  // UCX's descriptor, while it is announced
    Request request;
  };
  // A part of what was offered, in flight.
  struct Piece {
    size_t bytes = 0;
    size_t taken = 0;  // of the ring that it lies in
    bool by_rendezvous = false;
    Request request;
  };
  enum class Says : uint8_t { room, leaves, answer };

  // `memory`: the kind of memory that the payload lies in.
  UcxStream(Worker& worker, int peer, bool across_hosts, ucs_memory_type_t memory);

  // Sends a piece from the front of what is offered; false: it cannot now.
  virtual bool begin_piece(const CallMark& mark, const std::byte* data, size_t bytes) = 0;
  // The piece's memory is not needed any more.
  virtual void release(const Piece& piece) = 0;
  // Why a frame of this length may not come this way; nullptr: it may.
  virtual const char* refuse(size_t length, bool by_rendezvous) const = 0;
  // Copies the payload of an eager frame, which is UCX's and valid only during the call.
  virtual void keep(Frame* frame, const std::byte* payload) = 0;

  bool can_send() const { return failed_ == UCS_OK && piece_count_ < most_pieces; }
  // Sends `piece.bytes` from `at`, where they stay until the piece is released.
  void send_piece(const CallMark& mark, const std::byte* at, Piece piece);
  // Fetches an announced frame to `to`; then looks whether it has come.
  void fetch(Frame* frame, std::byte* to);
  void look_whether_here(Frame* frame);
  // The next frame; nullptr: there is none, or it is not of this call.
  Frame* next_of(const CallMark& mark);
  void tell(Says what);

  Worker& worker_;
  ucs_status_t failed_ = UCS_OK;
  Status corrupt_;
  size_t piece_count_ = 0;
  Queue<Frame> frames_;
  size_t unread_ = 0;     // bytes that have come or were announced and were not read
  size_t unfetched_ = 0;  // frames of a rendezvous that are not here yet
  // Credit for eager pieces since the start: used and got back by this rank as the sender; returned
  // by it as the receiver, and how much of that the peer was told.
  uint64_t room_used_ = 0, room_freed_ = 0;
  uint64_t room_returned_ = 0, room_told_ = 0;

 private:
  // All that UCX reads and writes for this stream besides the payload.
  struct Memory {
    std::array<std::array<uint8_t, header_bytes>, most_pieces> headers;
    std::array<std::array<uint8_t, note_bytes>, 3> notes{};  // one of each kind
    std::array<uint8_t, greeting_bytes> greeting{};
  };

  void reap();
  Piece& piece(size_t place) { return pieces_[(first_piece_ + place) % most_pieces]; }
  bool has_ended(Piece* piece);
  Request send_alone(Worker::Kind kind, std::span<const uint8_t> header);
  void take_room(uint64_t freed);
  Status check(const wire::Header& header, size_t length, bool by_rendezvous) const;

  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  int peer_;
  bool across_hosts_;
  ucs_memory_type_t memory_type_;
  ucp_ep_h endpoint_ = nullptr;
  bool greeted_ = false;
  Request greeting_request_;

  std::array<Piece, most_pieces> pieces_;
  size_t first_piece_ = 0;
  size_t counted_ = 0;    // pieces at the front whose bytes count as taken
  size_t under_way_ = 0;  // bytes of the other pieces
  size_t taken_ = 0;      // bytes that count as taken and were not reported to the caller yet
  uint64_t sent_ = 0;

  wire::Header latest_;
  uint64_t announced_ = 0;
  std::array<Request, 3> note_requests_;
  bool peer_leaves_ = false, owes_answer_ = false, answered_ = false;
  bool mismatched_ = false;

  uint64_t left_ns_ = 0;  // when the peer's bye frame came
  uint64_t end_ = 0;      // how many bytes it sent in all
};

}  // namespace tutti::ucx
