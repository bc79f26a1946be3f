#include "transports/ucx/stream.h"

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/control/bytes.h"

namespace tutti::ucx {

namespace {

// A bye frame comes over the control channel and may overtake data that was sent before it.
constexpr uint64_t goodbye_patience_ns = 250'000'000;

}  // namespace

UcxStream::UcxStream(Worker& worker, int peer, bool across_hosts, ucs_memory_type_t memory)
    : worker_(worker), peer_(peer), across_hosts_(across_hosts), memory_type_(memory) {}

UcxStream::~UcxStream() {
  const Functions& ucx = worker_.ucx();
  const auto forget = [&](Request& request) {
    if (request.pending != nullptr) ucx.ucp_request_free(request.pending);
  };
  for (Piece& piece : pieces_) forget(piece.request);
  for (; !frames_.empty(); frames_.pop()) {
    forget(frames_[0].request);
    if (void* const description = frames_[0].description; description != nullptr) {
      ucx.ucp_am_data_release(worker_.handle(), description);
    }
  }
  for (Request& request : note_requests_) forget(request);
  forget(greeting_request_);
  worker_.keep(memory_);
  worker_.part(peer_);
}

// ---------------------------------------------------------------- connecting

Status UcxStream::connect(const std::string& address) {
  return worker_.connect(peer_, address, across_hosts_, this, &endpoint_);
}

void UcxStream::greet() {
  uint8_t* const at = memory_->greeting.data();
  put_le(at, worker_.comm_id());
  put_le(at + 8, uint64_t(worker_.self()));
  greeting_request_ = send_alone(Worker::Kind::hello, memory_->greeting);
}

void UcxStream::take_greeting() {
  if (greeted_ && corrupt_.ok()) {
    corrupt_ = {TUTTI_CORRUPT, rank_name(peer_) + " greeted twice", peer_};
  }
  greeted_ = true;
}

Request UcxStream::send_alone(Worker::Kind kind, std::span<const uint8_t> header) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  return worker_.begun(worker_.ucx().ucp_am_send_nbx(endpoint_, kind, header.data(), header.size(),
                                                     nullptr, 0, &param));
}

// ---------------------------------------------------------------- sending

size_t UcxStream::send(const CallMark& mark, const std::byte* data, size_t bytes) {
  if (bytes == 0) return 0;
  if (piece_count_ > 0) {
    // A peer that sends too may receive only once its own message is taken. So its frames are
    // fetched here although this rank does not receive at the moment.
    worker_.advance();
    reap();
  }
  // The first bytes of what is offered may be in flight from an earlier offer.
  for (size_t ahead = taken_ + under_way_; ahead < bytes; ahead = taken_ + under_way_) {
    if (!begin_piece(mark, data + ahead, bytes - ahead)) break;
    reap();
  }
  const size_t taken = std::min(taken_, bytes);
  taken_ -= taken;
  return taken;
}

void UcxStream::send_piece(const CallMark& mark, const std::byte* at, Piece piece) {
  const size_t number = (first_piece_ + piece_count_) % most_pieces;
  wire::Header header;
  header.type = wire::Type::data;
  header.comm = worker_.comm_id();
  header.epoch = mark.epoch;
  header.stream = sent_;
  header.signature = mark.signature;
  header.src = uint16_t(worker_.self());
  header.digest = mark.digest;
  header.length = uint32_t(piece.bytes);
  const wire::HeaderBytes encoded = wire::encode(header);
  auto& before = memory_->headers[number];
  std::copy(encoded.begin(), encoded.end(), before.begin());
  put_le(before.data() + wire::header_bytes, room_returned_);
  room_told_ = room_returned_;

  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.flags = piece.by_rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = memory_type_;
  piece.request = worker_.begun(worker_.ucx().ucp_am_send_nbx(
      endpoint_, Worker::Kind::data, before.data(), before.size(), at, piece.bytes, &param));
  pieces_[number] = piece;
  ++piece_count_;
  under_way_ += piece.bytes;
  sent_ += piece.bytes;
}

bool UcxStream::has_ended(Piece* piece) {
  if (piece->request.failed || !worker_.ended(&piece->request)) return false;
  if (piece->request.failed) fail(UCS_ERR_CONNECTION_RESET);
  return !piece->request.failed;
}

void UcxStream::reap() {
  for (; counted_ < piece_count_; ++counted_) {
    Piece& next = piece(counted_);
    if (next.by_rendezvous && !has_ended(&next)) break;
    under_way_ -= next.bytes;
    taken_ += next.bytes;
  }
  for (; counted_ > 0 && has_ended(&piece(0)); --counted_, --piece_count_) {
    release(piece(0));
    first_piece_ = (first_piece_ + 1) % most_pieces;
  }
}

void UcxStream::take_room(uint64_t freed) {
  if (freed < room_freed_) return;  // a message that was overtaken by a later one
  if (freed <= room_used_) {
    room_freed_ = freed;
  } else if (corrupt_.ok()) {
    corrupt_ = {TUTTI_CORRUPT, rank_name(peer_) + " says that it took more than it was sent",
                peer_};
  }
}

// ---------------------------------------------------------------- what was met

void UcxStream::fail(ucs_status_t why) {
  if (failed_ == UCS_OK) failed_ = why;
}

Status UcxStream::failure() const {
  if (failed_ == UCS_OK) return {};
  Status found = worker_.ucx().failure(failed_, "the way to rank " + std::to_string(peer_));
  return {found.code(), found.text(), peer_};
}

bool UcxStream::send_failed() const {
  if (failed_ != UCS_OK) return true;
  return left_ns_ != 0 && now_ns() - left_ns_ > goodbye_patience_ns;
}

const Status& UcxStream::corrupt() const { return corrupt_.ok() ? worker_.corrupt() : corrupt_; }

const wire::Header* UcxStream::mismatched_frame() const {
  return mismatched_ && !frames_.empty() ? &frames_[0].header : nullptr;
}

std::optional<CallMark> UcxStream::latest() const {
  if (announced_ == 0) return std::nullopt;
  return latest_.mark();
}

void UcxStream::ends_at(uint64_t bytes) {
  left_ns_ = now_ns();
  end_ = bytes;
}

// ---------------------------------------------------------------- receiving

Status UcxStream::check(const wire::Header& header, size_t length, bool by_rendezvous) const {
  const char* wrong = nullptr;
  if (header.type != wire::Type::data || header.length == 0) {
    wrong = "a frame that does not belong among the data";
  } else if (header.stream != announced_) {
    wrong = "a frame that does not follow the one before";
  } else if (header.length != length) {
    wrong = "a frame of another length than its header says";
  } else if (by_rendezvous && length > most_long_bytes) {
    wrong = "a frame that is too long";
  } else if (by_rendezvous && unfetched_ == most_unfetched) {
    wrong = "more than there is room for";
  } else {
    wrong = refuse(length, by_rendezvous);
  }
  if (wrong == nullptr) return {};
  return {TUTTI_CORRUPT, rank_name(peer_) + " sent " + wrong, peer_};
}

bool UcxStream::take_frame(const uint8_t* header, std::byte* payload, size_t length,
                           bool by_rendezvous) {
  if (!corrupt_.ok()) return false;
  Frame frame;
  corrupt_ = wire::parse(std::span<const uint8_t, wire::header_bytes>(header, wire::header_bytes),
                         &frame.header);
  if (corrupt_.ok()) {
    corrupt_ = check(frame.header, length, by_rendezvous);
  } else {
    corrupt_ = {corrupt_.code(), "from rank " + std::to_string(peer_) + ": " + corrupt_.text(),
                peer_};
  }
  if (!corrupt_.ok()) return false;
  take_room(get_le<uint64_t>(header + wire::header_bytes));
  frame.left = length;
  frame.by_rendezvous = by_rendezvous;
  if (by_rendezvous) {
    frame.state = Frame::State::announced;
    frame.description = payload;
    ++unfetched_;
  } else {
    keep(&frame, payload);
  }
  announced_ += length;
  unread_ += length;
  latest_ = frame.header;
  frames_.push(frame);
  return by_rendezvous;
}

void UcxStream::fetch(Frame* frame, std::byte* to) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = memory_type_;
  frame->at = to;
  frame->state = Frame::State::coming;
  frame->request = worker_.begun(worker_.ucx().ucp_am_recv_data_nbx(
      worker_.handle(), frame->description, to, frame->left, &param));
  frame->description = nullptr;
}

void UcxStream::look_whether_here(Frame* frame) {
  if (frame->request.failed || !worker_.ended(&frame->request)) return;
  if (frame->request.failed) return fail(UCS_ERR_CONNECTION_RESET);
  frame->state = Frame::State::here;
  --unfetched_;
}

const wire::Header* UcxStream::next() {
  if (frames_.empty() && corrupt_.ok()) worker_.progress();
  return frames_.empty() ? nullptr : &frames_[0].header;
}

UcxStream::Frame* UcxStream::next_of(const CallMark& mark) {
  if (frames_.empty()) return nullptr;
  Frame& frame = frames_[0];
  if (frame.header.digest == mark.digest) return &frame;
  mismatched_ = true;
  return nullptr;
}

// One note of a kind in flight at a time; credit returned meanwhile goes with the next one.
void UcxStream::tell(Says what) {
  Request& request = note_requests_[size_t(what)];
  if (endpoint_ == nullptr || failed_ != UCS_OK || !worker_.ended(&request)) return;
  auto& note = memory_->notes[size_t(what)];
  put_le(note.data(), worker_.comm_id());
  put_le(note.data() + 8, uint64_t(worker_.self()));
  put_le(note.data() + 16, room_returned_);
  note[24] = uint8_t(what);
  room_told_ = room_returned_;
  request = send_alone(Worker::Kind::note, note);
}

void UcxStream::take_note(uint64_t freed, uint8_t says) {
  take_room(freed);
  if (says == uint8_t(Says::leaves)) peer_leaves_ = owes_answer_ = true;
  if (says == uint8_t(Says::answer)) answered_ = true;
}

}  // namespace tutti::ucx
