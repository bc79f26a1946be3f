#include "transports/ucx/stream.h"

#include <algorithm>
#include <cstring>

#include "lib/clock.h"
#include "lib/control/bytes.h"

namespace tutti::ucx {

namespace {

// A goodbye comes another way than the data and may overtake what was sent before it.
constexpr uint64_t goodbye_patience_ns = 250'000'000;
// How much is put together at once of elements that cannot be read where they lie.
constexpr size_t gathered_bytes = 64 << 10;
// The largest alignment that a kernel may count on.
constexpr size_t most_alignment = 16;

bool askew(const std::byte* at, size_t granule) {
  const size_t alignment = std::min(granule & (~granule + 1), most_alignment);
  return (reinterpret_cast<uintptr_t>(at) & (alignment - 1)) != 0;
}

}  // namespace

UcxStream::UcxStream(Worker& worker, int peer, bool across_hosts)
    : worker_(worker), peer_(peer), across_hosts_(across_hosts) {}

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
  worker_.part(peer_, memory_);
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
    corrupt_ = {TUTTI_CORRUPT, "rank " + std::to_string(peer_) + " greeted twice", peer_};
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
    worker_.progress();
    reap();
  }
  // The first of what is offered may be under way from an earlier offer.
  for (size_t ahead = taken_ + under_way_; ahead < bytes; ahead = taken_ + under_way_) {
    if (!begin_piece(mark, data + ahead, bytes - ahead)) break;
    reap();
  }
  const size_t taken = std::min(taken_, bytes);
  taken_ -= taken;
  return taken;
}

bool UcxStream::begin_piece(const CallMark& mark, const std::byte* data, size_t bytes) {
  if (failed_ != UCS_OK || piece_count_ == most_pieces) return false;
  size_t length = std::min(bytes, most_long_bytes);
  // The stream takes a little of a long message also while the receiver does not look.
  const bool quiet = piece_count_ == 0 && room_used_ == room_freed_;
  if (quiet || bytes <= most_short_bytes) length = std::min(bytes, most_short_bytes);
  const bool short_one =
      length <= most_short_bytes && room_used_ - room_freed_ + room(length) <= window;
  const Ring::Place place = memory_->outgoing.reserve(length);
  if (place.at == nullptr) return false;
  std::memcpy(place.at, data, length);

  const size_t number = (first_piece_ + piece_count_) % most_pieces;
  wire::Header header;
  header.type = wire::Type::data;
  header.comm = worker_.comm_id();
  header.epoch = mark.epoch;
  header.stream = sent_;
  header.signature = mark.signature;
  header.src = uint16_t(worker_.self());
  header.digest = mark.digest;
  header.length = uint32_t(length);
  const wire::HeaderBytes encoded = wire::encode(header);
  auto& before = memory_->headers[number];
  std::copy(encoded.begin(), encoded.end(), before.begin());
  put_le(before.data() + wire::header_bytes, room_returned_);
  room_told_ = room_returned_;

  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = short_one ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  Piece& piece = pieces_[number];
  piece = {};
  piece.bytes = length;
  piece.taken = place.taken;
  piece.by_rendezvous = !short_one;
  piece.request = worker_.begun(worker_.ucx().ucp_am_send_nbx(
      endpoint_, Worker::Kind::data, before.data(), before.size(), place.at, length, &param));
  ++piece_count_;
  under_way_ += length;
  sent_ += length;
  if (short_one) room_used_ += room(length);
  return true;
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
    memory_->outgoing.release(piece(0).taken);
    first_piece_ = (first_piece_ + 1) % most_pieces;
  }
}

void UcxStream::take_room(uint64_t freed) {
  if (freed < room_freed_) return;  // an older word, overtaken
  if (freed <= room_used_) {
    room_freed_ = freed;
  } else if (corrupt_.ok()) {
    corrupt_ = {TUTTI_CORRUPT,
                "rank " + std::to_string(peer_) + " says that it took more than it was sent",
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

const wire::Header* UcxStream::stranger() const {
  return stranger_ && !frames_.empty() ? &frames_[0].header : nullptr;
}

std::optional<CallMark> UcxStream::latest() const {
  if (announced_ == 0) return std::nullopt;
  return latest_.mark();
}

void UcxStream::ends_at(uint64_t bytes) {
  left_ns_ = now_ns();
  end_ = bytes;
}

bool UcxStream::busy() const { return piece_count_ > 0 || unfetched_ > 0; }

// ---------------------------------------------------------------- receiving

Status UcxStream::check(const wire::Header& header, size_t length, bool by_rendezvous) const {
  const char* wrong = nullptr;
  if (header.type != wire::Type::data || header.length == 0) {
    wrong = "a frame that does not belong among the data";
  } else if (header.stream != announced_) {
    wrong = "a frame that does not follow the one before";
  } else if (header.length != length) {
    wrong = "a frame of another length than its header says";
  } else if (length > (by_rendezvous ? most_long_bytes : most_short_bytes)) {
    wrong = "a frame that is too long";
  } else if (by_rendezvous ? unfetched_ == most_unfetched
                           : room_taken_ + room(length) - room_returned_ > window) {
    wrong = "more than there is room for";
  }
  if (wrong == nullptr) return {};
  return {TUTTI_CORRUPT, "rank " + std::to_string(peer_) + " sent " + wrong, peer_};
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
    const Ring::Place place = memory_->short_frames.reserve(length);
    std::memcpy(place.at, payload, length);
    frame.at = place.at;
    frame.taken = place.taken;
    room_taken_ += room(length);
  }
  announced_ += length;
  unread_ += length;
  latest_ = frame.header;
  frames_.push(frame);
  return by_rendezvous;
}

// In order: what is read first gets its memory first.
void UcxStream::advance() {
  if (unfetched_ == 0) return;
  for (size_t i = 0; i < frames_.size(); ++i) {
    advance_frame(&frames_[i]);
    if (frames_[i].state == Frame::State::announced) return;
  }
}

void UcxStream::advance_frame(Frame* frame) {
  // What has come before the peer went is here all the same.
  if (frame->state == Frame::State::announced && failed_ == UCS_OK) {
    const Ring::Place place = memory_->long_frames.reserve(frame->left);
    if (place.at == nullptr) return;
    const ucp_request_param_t param{};
    frame->at = place.at;
    frame->taken = place.taken;
    frame->state = Frame::State::coming;
    frame->request = worker_.begun(worker_.ucx().ucp_am_recv_data_nbx(
        worker_.handle(), frame->description, place.at, frame->left, &param));
    frame->description = nullptr;
  }
  if (frame->state == Frame::State::coming) {
    if (frame->request.failed || !worker_.ended(&frame->request)) return;
    if (frame->request.failed) return fail(UCS_ERR_CONNECTION_RESET);
    frame->state = Frame::State::here;
    --unfetched_;
  }
}

UcxStream::Frame* UcxStream::front(const CallMark& mark) {
  if (frames_.empty()) return nullptr;
  Frame& frame = frames_[0];
  if (frame.header.digest != mark.digest) {
    stranger_ = true;
    return nullptr;
  }
  advance();
  return frame.state == Frame::State::here ? &frame : nullptr;
}

// The same after a look at what has come meanwhile.
UcxStream::Frame* UcxStream::await_front(const CallMark& mark) {
  Frame* frame = front(mark);
  if (frame != nullptr || !corrupt_.ok()) return frame;
  worker_.progress();
  return front(mark);
}

void UcxStream::read(Frame* frame, size_t bytes) {
  frame->at += bytes;
  frame->left -= bytes;
  if (frame->left > 0) return;
  if (frame->by_rendezvous) {
    memory_->long_frames.release(frame->taken);
  } else {
    memory_->short_frames.release(frame->taken);
    room_returned_ += room(frame->header.length);
  }
  frames_.pop();
  tell_room();
}

void UcxStream::tell_room() {
  if (room_returned_ - room_told_ >= window / 4) tell(Says::room);
}

// One of a kind at a time: what one that is still on its way does not say, the next one does.
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

size_t UcxStream::receive(const CallMark& mark, std::byte* to, size_t most) {
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

std::span<const std::byte> UcxStream::peek(const CallMark& mark, size_t most, size_t granule) {
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

void UcxStream::gather(const CallMark& mark, size_t wanted) {
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

void UcxStream::consume(size_t bytes) {
  unread_ -= bytes;
  if (gathered_begin_ < gathered_.size()) {
    gathered_begin_ += bytes;
  } else {
    read(&frames_[0], bytes);
  }
}

}  // namespace tutti::ucx
