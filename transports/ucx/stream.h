// One pair's data over UCX: frames as active messages, each with a frame's header. Here is what all
// such streams share: how a pair meets, tells each other of room and leaves, what is on its way,
// and the checks of what comes. How bytes get from the caller's memory into messages, and from
// there to the caller, is staged_stream.h's.
//
// What counts as taken and is still with UCX, progress_thread.h sees to: so a rank that has ended
// its call never holds up a peer.
#pragma once

#include <array>
#include <utility>

#include "transports/stream/data_stream.h"
#include "transports/ucx/queue.h"
#include "transports/ucx/worker.h"

namespace tutti::ucx {

class UcxStream : public tcp::DataStream {
 public:
  // What precedes the payload: the frame's header and how much of what came this way has been
  // taken, in the currency of room.
  static constexpr size_t header_bytes = wire::header_bytes + 8;
  // Of the other messages, which have no payload: communicator, sender, and what it says.
  static constexpr size_t note_bytes = 25, greeting_bytes = 16;
  static constexpr size_t most_long_bytes = 512 << 10;

  ~UcxStream() override;

  Status connect(const std::string& address);
  // Tells the peer that this rank is there, and whether the peer has.
  void greet();
  bool greeted() const { return greeted_; }

  size_t send(const CallMark& mark, const std::byte* data, size_t bytes) override;

  bool ended() const override { return left_ns_ != 0 && announced_ >= end_ && frames_.empty(); }
  bool send_failed() const override;
  const Status& corrupt() const override;
  const wire::Header* mismatched_frame() const override;
  void forget_stranger() override { mismatched_ = false; }
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
  // Moves on what is being fetched.
  virtual void advance() = 0;
  // Says that this rank leaves; the peer answers when it has got all that came before.
  void leave() { tell(Says::leaves); }
  void answer() {
    if (std::exchange(owes_answer_, false)) tell(Says::answer);
  }
  // Nothing of what was sent is wanted any more, or all of it has arrived.
  bool settled() const { return failed_ != UCS_OK || left_ns_ != 0 || peer_leaves_ || answered_; }
  // Whether UCX has yet to end something for this stream.
  bool busy() const { return piece_count_ > 0 || unfetched_ > 0; }

 protected:
  static constexpr size_t most_pieces = 8;
  // A sender may be one set of pieces ahead of what this rank knows to be fetched.
  static constexpr size_t most_unfetched = 2 * most_pieces;

  // What has come, or is announced.
  struct Frame {
    enum class State { announced, coming, here };
    wire::Header header;
    State state = State::here;
    const std::byte* at = nullptr;
    size_t left = 0;   // not yet read
    size_t taken = 0;  // of the memory of the stream that it lies in
    bool by_rendezvous = false;
    void* description = nullptr;  // UCX's, while it is announced
    Request request;
  };
  // Of what was offered, on its way.
  struct Piece {
    size_t bytes = 0;
    size_t taken = 0;  // of the memory of the stream that it lies in
    bool by_rendezvous = false;
    Request request;
  };
  enum class Says : uint8_t { room, leaves, answer };

  // `memory`: what kind the payload lies in.
  UcxStream(Worker& worker, int peer, bool across_hosts, ucs_memory_type_t memory);

  // Sends the first bytes of what is offered, if it can now.
  virtual bool begin_piece(const CallMark& mark, const std::byte* data, size_t bytes) = 0;
  // Nothing of the piece is needed any more.
  virtual void release(const Piece& piece) = 0;
  // Why there may not come a frame so long and in this way; nullptr: it may.
  virtual const char* refuse(size_t length, bool by_rendezvous) const = 0;
  // Of a frame that has come whole: its payload is UCX's and goes.
  virtual void keep(Frame* frame, const std::byte* payload) = 0;

  bool can_send() const { return failed_ == UCS_OK && piece_count_ < most_pieces; }
  // `piece.bytes` from `at`, where they stay until the piece is released.
  void send_piece(const CallMark& mark, const std::byte* at, Piece piece);
  // An announced frame to `to`; then whether it has come.
  void fetch(Frame* frame, std::byte* to);
  void look_whether_here(Frame* frame);
  // The frame that is next; nullptr: there is none, or not of this call.
  Frame* next(const CallMark& mark);
  void tell(Says what);

  Worker& worker_;
  ucs_status_t failed_ = UCS_OK;
  Status corrupt_;
  size_t piece_count_ = 0;
  Queue<Frame> frames_;
  size_t unread_ = 0;     // of what was announced
  size_t unfetched_ = 0;  // frames that are not here
  // What a stream has room for, in a currency of its own: at the peer, and here.
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
  size_t under_way_ = 0;  // bytes of the others
  size_t taken_ = 0;      // bytes that count as taken and were not yet reported
  uint64_t sent_ = 0;

  wire::Header latest_;
  uint64_t announced_ = 0;
  std::array<Request, 3> note_requests_;
  bool peer_leaves_ = false, owes_answer_ = false, answered_ = false;
  bool mismatched_ = false;

  uint64_t left_ns_ = 0;  // when the peer said goodbye
  uint64_t end_ = 0;      // how much it sent in all
};

}  // namespace tutti::ucx
