#include "transports/stream/stream_link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/control/host_watch.h"
#include "lib/control/socket.h"

namespace tutti::tcp {

namespace {

// A rank that has waited so long sends its peers its call; they compare it with their own.
constexpr uint64_t tell_period_ns = 50'000'000;
// The most status frames sent to a peer from which nothing comes: it may not read for a long time.
constexpr uint32_t most_told = 512;
constexpr uint32_t most_notes = 128;  // likewise
// A peer closes data and control together, but the two ends may arrive at different times.
constexpr uint64_t goodbye_patience_ns = 250'000'000;
// How long to wait for a peer's status frame that says in which earlier call two ranks differed.
constexpr uint64_t earlier_patience_ns = 4 * tell_period_ns;

constexpr uint64_t bell_event = ~uint64_t{0};
constexpr uint64_t carrier_event = bell_event - 2;
constexpr uint64_t control_bit = 1;

}  // namespace

StreamLink::Peer::Peer(StreamLink& link, Pair pair, int rank)
    : link(link),
      rank(rank),
      host(is_within_host(pair.control.get()) ? "" : peer_address(pair.control.get()).host()),
      addresses(local_address(pair.control.get()).text() + " to " +
                peer_address(pair.control.get()).text()),
      stream(std::move(pair.data)),
      late(stream->late()),
      control(std::move(pair.control), wire::most_mail_bytes) {
  if (late != nullptr) late->begin(this);
}

StreamLink::StreamLink(const char* name, uint64_t comm_id, int self, std::vector<Pair> pairs,
                       uint64_t heartbeat_ns, std::unique_ptr<Carrier> carrier)
    : name_(name),
      heartbeat_(heartbeat_ns),
      carrier_(std::move(carrier)),
      peers_(pairs.size()),
      comm_id_(comm_id),
      self_(self) {
  for (size_t rank = 0; rank < pairs.size(); ++rank) {
    if (pairs[rank].data == nullptr) continue;
    peers_[rank] = std::make_unique<Peer>(*this, std::move(pairs[rank]), int(rank));
    has_peers_ = true;
  }
}

StreamLink::~StreamLink() {
  if (carrier_ != nullptr) carrier_->close();
  const std::lock_guard lock(control_mutex_);
  CallMark parting;
  parting.epoch = moved_on_ ? 1 : 0;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    tell(*peer, wire::Type::bye, parting, {});
  }
  let_farewells_arrive();
  for (const auto& peer : peers_) {
    if (peer != nullptr) close_in_order(peer->control.fd());
  }
}

// Else one that is lost on its way may stay so, and this rank would seem to have died.
void StreamLink::let_farewells_arrive() noexcept {
  try {
    std::vector<FrameChannel*> elsewhere;
    for (const auto& peer : peers_) {
      if (peer != nullptr && peer->can_be_asked() && !peer->is_silent())
        elsewhere.push_back(&peer->control);
    }
    let_arrive(std::move(elsewhere));
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): as if it were not waited for
  }
}

Status StreamLink::prepare() {
  if (!has_peers_) return {};
  events_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!events_) return resource_error("cannot make an epoll instance", errno);
  process::keep_from_children(events_);
  bell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_) return resource_error("cannot make an eventfd", errno);
  process::keep_from_children(bell_);
  TUTTI_TRY(watch(bell_.get(), EPOLLIN, bell_event));
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    TUTTI_TRY(
        watch(peer->control.fd(), EPOLLIN | EPOLLRDHUP, uint64_t(peer->rank) << 1 | control_bit));
  }
  return {};
}

Status StreamLink::watch(int fd, uint32_t events, uint64_t what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return resource_error("cannot watch a socket", errno);
}

// From the first sleep on: a rank that never sleeps saves the system calls.
void StreamLink::watch_data() {
  watches_data_ = true;
  if (carrier_ != nullptr) {
    Status watched = watch(carrier_->fd(), EPOLLIN, carrier_event);
    if (!watched.ok()) fail(std::move(watched));
    return;
  }
  for (const auto& peer : peers_) {
    if (peer != nullptr && peer->stream->fd() >= 0) watch_data_of(*peer);
  }
}

void StreamLink::watch_data_of(Peer& peer) {
  // Edge-triggered: data that no call receives yet wakes a sleeper once, not again and again.
  Status watched =
      watch(peer.stream->fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, uint64_t(peer.rank) << 1);
  if (!watched.ok()) fail(std::move(watched));
}

// ---------------------------------------------------------------- moving data

void StreamLink::begin(const CallMark& mark) {
  const auto held = hold();
  if (mark_.epoch != 0) previous_ = mark_;
  mark_ = mark;
  ++calls_;
  results_.forget();
  differs_since_ns_ = 0;
  if (mark.epoch != 0) collective_ = mark.epoch;
  go_on_connecting();
  // A call without data sends no frame that a peer could compare with its own call.
  if (mark.signature.count == 0 && mark.epoch != 0) tell_call(0);
}

size_t StreamLink::try_send(int rank, const std::byte* data, size_t bytes) {
  const auto held = hold();
  if (refuses()) [[unlikely]]
    return 0;
  Peer& peer = *peers_[size_t(rank)];
  const size_t taken = peer.stream->send(mark_, data, bytes);
  peer.send_waits_in = taken == 0 ? calls_ : 0;
  return taken;
}

std::span<const std::byte> StreamLink::try_peek(int rank, size_t most, size_t granule) {
  const auto held = hold();
  if (refuses()) [[unlikely]]
    return {};
  Peer& peer = *peers_[size_t(rank)];
  const std::span<const std::byte> found = peer.stream->peek(mark_, most, granule);
  peer.receive_waits_in = found.empty() ? calls_ : 0;
  return found;
}

void StreamLink::consume(int rank, size_t bytes) {
  const auto held = hold();
  peers_[size_t(rank)]->stream->consume(bytes);
}

Next StreamLink::next(int rank, const CallMark& mark) {
  const auto held = hold();
  if (refuses()) [[unlikely]]
    return Next::nothing;
  Peer& peer = *peers_[size_t(rank)];
  const wire::Header* const frame = peer.stream->next();
  peer.next_waits_in = frame == nullptr ? calls_ : 0;
  if (frame == nullptr) return Next::nothing;
  const bool same =
      frame->epoch == 0 && frame->digest == mark.digest && frame->signature == mark.signature;
  return same ? Next::this_one : Next::another;
}

size_t StreamLink::try_recv(int rank, std::byte* to, size_t most) {
  const auto held = hold();
  if (refuses()) [[unlikely]]
    return 0;
  Peer& peer = *peers_[size_t(rank)];
  const size_t got = peer.stream->receive(mark_, to, most);
  peer.receive_waits_in = got == 0 ? calls_ : 0;
  return got;
}

// ---------------------------------------------------------------- events

void StreamLink::take_events() {
  std::array<epoll_event, 64> events;
  for (int count = int(events.size()); count == int(events.size());) {
    count = ::epoll_wait(events_.get(), events.data(), int(events.size()), 0);  // a look
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[size_t(i)];
      if (event.data.u64 == bell_event) {
        uint64_t rings;
        static_cast<void>(::read(bell_.get(), &rings, sizeof(rings)));
        stirred_ = true;
        continue;
      }
      if (event.data.u64 == carrier_event) {
        stirred_ = true;
        continue;
      }
      Peer& peer = *peers_[size_t(event.data.u64 >> 1)];
      if ((event.data.u64 & control_bit) != 0) {
        read_control(peer);
      } else {
        stirred_ = true;
        if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) peer.hung_up = true;
      }
    }
  }
}

void StreamLink::read_control(Peer& peer) {
  using Got = FrameChannel::Got;
  wire::Header header;
  std::string_view payload;
  Status why;
  Got got = peer.control.read(&header, &payload, &why);
  for (; got == Got::frame; got = peer.control.read(&header, &payload, &why))
    take_frame(peer, header, payload);
  if (got == Got::nothing) return;
  if (got == Got::closed) {
    // Another thread may be sending, whom the kernel has just told why.
    const std::lock_guard lock(control_mutex_);
    got = peer.control.read(&header, &payload, &why);
  }
  peer.closed = true;
  if (got == Got::broken) {
    peer.given_up = why.code() == TUTTI_PEER_FAILED;
    peer.broken = std::move(why);
  } else if (got == Got::reset && !peer.host.empty()) {
    // That does not tell of its process's end: its kernel may have given up a connection over which
    // it heard nothing.
    peer.broken = {TUTTI_PEER_FAILED, "its host has reset it"};
  }
  if (!peer.left) let_go(peer);
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, peer.control.fd(), nullptr);
}

void StreamLink::take_frame(Peer& peer, const wire::Header& header, std::string_view payload) {
  const std::string who = rank_name(peer.rank);
  if (header.comm != comm_id_ || header.src != uint16_t(peer.rank)) {
    return fail({TUTTI_CORRUPT, who + " sent a frame of another communicator or rank", peer.rank});
  }
  peer.told_count = 0;
  peer.inquiry.beats_unheard = 0;
  peer.notes_unheard.store(0, std::memory_order_relaxed);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(payload.data());
  switch (header.type) {
    case wire::Type::status:
      peer.said[peer.said_count++ % peer.said.size()] = {header.mark(), header.stream};
      return;
    case wire::Type::beat:
      return;
    case wire::Type::bye:
      peer.left = true;
      peer.moved_on = header.epoch != 0;
      peer.stream->ends_at(header.stream);
      let_go(peer);
      return;
    case wire::Type::abort: {
      Status reason;
      const Status parsed = wire::parse_status({bytes, payload.size()}, &reason);
      if (parsed.ok()) return fail(std::move(reason));
      return fail({parsed.code(), "from " + who + ": " + parsed.text(), peer.rank});
    }
    case wire::Type::note: {
      const Status parsed = wire::parse_note(header, {bytes, payload.size()}, &peer.note);
      if (parsed.ok()) return;
      return fail({parsed.code(), "from " + who + ": " + parsed.text(), peer.rank});
    }
    case wire::Type::mail:
      return take_text(peer, payload);
    case wire::Type::early:
      stirred_ = true;
      if (peer.late != nullptr && peer.late->come(payload)) return;
      break;
    case wire::Type::moved:
      stirred_ = true;
      if (peer.late != nullptr && peer.late->peer_moves()) return;
      break;
    case wire::Type::connect:
      if (take_connect(peer, payload)) return;
      break;
    case wire::Type::data:
    case wire::Type::exchange:
      break;
  }
  fail({TUTTI_CORRUPT, who + " sent a frame that does not belong among the control frames",
        peer.rank});
}

void StreamLink::fail(Status error) {
  if (failure_.ok()) failure_ = std::move(error);
}

void StreamLink::arm() {
  const auto held = hold();
  if (!watches_data_) watch_data();
  take_events();
  stirred_ = carrier_ != nullptr && !carrier_->arm();
}

void StreamLink::sleep(uint64_t until_ns) {
  const uint64_t now = now_ns();
  if (stirred_ || !failure_.ok() || until_ns <= now) return;
  if (is_connecting()) return sleep_while_connecting(until_ns);
  uint64_t left = until_ns - now;
  if (carrier_ != nullptr) {
    const auto held = hold();
    left = std::min(left, carrier_->most_sleep_ns());
  }
  const timespec timeout{time_t(left / 1'000'000'000u), long(left % 1'000'000'000u)};
  pollfd entry{events_.get(), POLLIN, 0};
  if (::ppoll(&entry, 1, &timeout, nullptr) <= 0) return;
  const auto held = hold();
  take_events();
}

// ---------------------------------------------------------------- telling

void StreamLink::tell(Peer& peer, wire::Type type, const CallMark& mark, std::string_view payload) {
  wire::Header header;
  header.type = type;
  header.comm = comm_id_;
  header.epoch = mark.epoch;
  header.stream = peer.stream->sent();
  header.signature = mark.signature;
  header.src = uint16_t(self_);
  header.digest = mark.digest;
  peer.control.queue(header, payload);
  peer.control.flush();
}

void StreamLink::tell_call(uint64_t now_ns) {
  told_ns_ = now_ns;
  const std::lock_guard lock(control_mutex_);
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer->left || peer->closed) continue;
    if (mark_.epoch == 0 && mark_.peer != peer->rank) continue;
    if (peer->stream->delivered() != peer->heard_stream) {
      peer->told_count = 0;
      peer->notes_unheard.store(0, std::memory_order_relaxed);
    }
    peer->heard_stream = peer->stream->delivered();
    const bool news = peer->told_call != calls_ || peer->told_stream != peer->stream->sent();
    if (!news || peer->told_count >= most_told || !peer->control.flush() ||
        !peer->control.flushed()) {
      continue;
    }
    peer->told_call = calls_;
    peer->told_stream = peer->stream->sent();
    ++peer->told_count;
    // Ranks may have differed in the call before without having heard from each other in it.
    if (previous_.epoch != 0 && previous_.epoch + 1 == mark_.epoch) {
      tell(*peer, wire::Type::status, previous_, {});
    }
    tell(*peer, wire::Type::status);
  }
}

// Uses only what the mutex guards: the thread of the link's calls may be using the rest.
void StreamLink::post_note(const Note& note) {
  const std::lock_guard lock(control_mutex_);
  if (!(note == note_)) {
    note_ = note;
    ++notes_;
  }
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer->note_told == notes_) continue;
    if (peer->notes_unheard.load(std::memory_order_relaxed) >= most_notes) continue;
    if (!peer->control.flush() || !peer->control.flushed()) continue;
    wire::Header header;
    const std::string payload = wire::encode_note(note_, &header);
    header.comm = comm_id_;
    header.src = uint16_t(self_);
    peer->control.queue(header, payload);
    peer->control.flush();
    peer->note_told = notes_;
    peer->notes_unheard.fetch_add(1, std::memory_order_relaxed);
  }
}

Note StreamLink::read_note(int peer) const {
  return peers_[size_t(peer)] != nullptr ? peers_[size_t(peer)]->note : Note();
}

const char* StreamLink::addresses_to(int peer) const {
  return peers_[size_t(peer)] != nullptr ? peers_[size_t(peer)]->addresses.c_str() : "";
}

Integrity StreamLink::integrity_to(int peer) const {
  return peers_[size_t(peer)] != nullptr ? peers_[size_t(peer)]->control.integrity()
                                         : Integrity::none;
}

// The end of the stream tells of this process's end also where another of its exit handlers never
// returns, as after a signal that came within malloc().
void StreamLink::leave(bool in_call) noexcept {
  if (!in_call) return;
  for (const auto& peer : peers_) {
    if (peer != nullptr) ::shutdown(peer->control.fd(), SHUT_WR);
  }
}

void StreamLink::abort(const Status& reason) {
  const std::lock_guard lock(control_mutex_);
  if (!aborted_.load(std::memory_order_relaxed)) abort_reason_ = reason;
  aborted_.store(true, std::memory_order_release);
  wire::Header header;
  header.type = wire::Type::abort;
  header.comm = comm_id_;
  header.src = uint16_t(self_);
  const std::string payload = wire::encode_status(abort_reason_);
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer->told_of_abort) continue;
    peer->control.queue(header, payload);
    peer->told_of_abort = true;
    peer->control.flush();
  }
  const uint64_t ring = 1;
  static_cast<void>(::write(bell_.get(), &ring, sizeof(ring)));
}

// ---------------------------------------------------------------- inspecting

Status StreamLink::inspect(uint64_t now_ns) {
  const auto held = hold();
  if (over_) return failure_;
  inspected_ns_ = now_ns;
  take_events();
  if (carrier_ != nullptr) carrier_->advance();
  if (is_connecting()) advance_late(now_ns);
  if (failure_.ok() && aborted_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(control_mutex_);
    failure_ = abort_reason_;
  }
  if (failure_.ok()) failure_ = find_corrupt();
  if (failure_.ok()) failure_ = find_mismatch();
  if (failure_.ok()) failure_ = find_failed(now_ns);
  if (failure_.ok()) failure_ = find_silent(now_ns);
  if (!failure_.ok()) {
    over_ = true;
    asking_.clear();
    if (late_) late_->close();
    return failure_;
  }
  if (told_in_ != calls_) {
    told_in_ = calls_;
    told_ns_ = now_ns;
  } else if (now_ns - told_ns_ >= tell_period_ns) {
    tell_call(now_ns);
  }
  return {};
}

Status StreamLink::find_corrupt() const {
  for (const auto& peer : peers_) {
    if (peer != nullptr && !peer->stream->corrupt().ok()) return peer->stream->corrupt();
  }
  return {};
}

std::string StreamLink::own_call() const {
  return rank_name(self_) + " calls " + mark_.signature.describe();
}

std::string StreamLink::latest_call(const Peer& peer) const {
  const std::optional<CallMark> seen = seen_of(peer.rank);
  if (!seen) return "no call of it was seen";
  return "its last call seen was " +
         (seen->epoch != 0 ? std::to_string(seen->epoch) + ", " : std::string()) +
         seen->signature.describe();
}

Status StreamLink::compare_results() {
  std::vector<Announced> peers;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    const wire::Header* const frame = peer->stream->mismatched_frame();
    std::optional<CallMark> theirs = seen_of(peer->rank);
    if (frame != nullptr && frame->epoch == mark_.epoch) theirs = frame->mark();
    if (!theirs || theirs->epoch != mark_.epoch) continue;
    if (theirs->signature.same_call(mark_.signature)) peers.push_back({peer->rank, theirs->digest});
  }
  return results_.judge(mark_, self_, peers, peers_.size(), inspected_ns_);
}

// The peer makes the same call, but the two ranks have not made the same calls before it. OK: wait
// until the peer has told of its call before.
Status StreamLink::earlier_error(const Peer& peer) {
  for (const Said& said : peer.said) {
    if (said.mark.epoch == 0 || said.mark.epoch != previous_.epoch ||
        said.mark.signature.same_call(previous_.signature)) {
      continue;
    }
    return {TUTTI_MISMATCH,
            "call " + std::to_string(previous_.epoch) + ": rank " + std::to_string(self_) +
                " calls " + previous_.signature.describe() + ", but rank " +
                std::to_string(peer.rank) + " calls " + said.mark.signature.describe(),
            peer.rank, mark_.epoch};
  }
  if (differs_since_ns_ == 0) differs_since_ns_ = inspected_ns_;
  if (inspected_ns_ - differs_since_ns_ < earlier_patience_ns) return {};
  return {TUTTI_MISMATCH,
          rank_name(peer.rank) + " and rank " + std::to_string(self_) +
              " have not made the same calls before call " + std::to_string(mark_.epoch),
          peer.rank, mark_.epoch};
}

Status StreamLink::stranger_error(const Peer& peer) {
  const wire::Header& frame = *peer.stream->mismatched_frame();
  if (frame.epoch != 0 && frame.epoch == mark_.epoch &&
      frame.signature.same_call(mark_.signature)) {
    return mark_.signature.result != 0 ? compare_results() : earlier_error(peer);
  }
  if (frame.epoch != 0 && frame.epoch == previous_.epoch &&
      !frame.signature.same_call(
          previous_.signature)) {  // the disagreement was in the call before this
    return {TUTTI_MISMATCH,
            "call " + std::to_string(frame.epoch) + ": rank " + std::to_string(self_) + " calls " +
                previous_.signature.describe() + ", but rank " + std::to_string(peer.rank) +
                " calls " + frame.signature.describe(),
            peer.rank, frame.epoch};
  }
  std::string text = own_call();
  if (mark_.epoch != 0) text.insert(0, "call " + std::to_string(mark_.epoch) + ": ");
  text += ", but rank " + std::to_string(peer.rank) + " calls " + frame.signature.describe();
  if (frame.epoch != mark_.epoch && frame.epoch != 0) {
    text += " (call " + std::to_string(frame.epoch) + ")";
  } else if (frame.signature == mark_.signature) {
    text += " for another message";
  }
  return {TUTTI_MISMATCH, std::move(text), peer.rank, mark_.epoch};
}

Status StreamLink::find_mismatch() {
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    // An earlier call may have found the frame mismatched, and it may belong to this one.
    if (const wire::Header* const frame = peer->stream->mismatched_frame(); frame != nullptr) {
      if (frame->digest != mark_.digest && peer->receive_waits_in == calls_) {
        TUTTI_TRY(stranger_error(*peer));
      } else {
        peer->stream->forget_stranger();
      }
    }
    TUTTI_TRY(compare(*peer));
    TUTTI_TRY(find_absent(*peer));
  }
  return {};
}

Status StreamLink::compare(const Peer& peer) {
  if (mark_.epoch == 0) return {};
  for (const Said& said : peer.said) {
    if (said.mark.epoch != mark_.epoch || said.mark.digest == mark_.digest) continue;
    if (said.mark.signature.same_call(mark_.signature)) {
      return mark_.signature.result != 0 ? compare_results() : earlier_error(peer);
    }
    return {TUTTI_MISMATCH,
            "call " + std::to_string(mark_.epoch) + ": " + own_call() + ", but rank " +
                std::to_string(peer.rank) + " calls " + said.mark.signature.describe(),
            peer.rank, mark_.epoch};
  }
  return {};
}

// Point to point: a peer that is blocked in a collective call which this rank has not entered, and
// whose data has all been received, will not send.
Status StreamLink::find_absent(const Peer& peer) const {
  if (mark_.epoch != 0 || mark_.peer != peer.rank || peer.said_count == 0) return {};
  const Said& said = peer.said[(peer.said_count - 1) % peer.said.size()];
  const bool waits = receives_from(peer) && said.stream == peer.stream->delivered();
  // A call without data ends at once, and its status frame is sent when it begins, so it is no
  // wait.
  if (!waits || said.mark.epoch <= collective_ || said.mark.signature.count == 0) return {};
  return {TUTTI_MISMATCH,
          own_call() + ", but rank " + std::to_string(peer.rank) + " calls " +
              said.mark.signature.describe() + " (call " + std::to_string(said.mark.epoch) + ")",
          peer.rank, said.mark.epoch};
}

Status StreamLink::find_failed(uint64_t now_ns) {
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    const std::string who = rank_name(peer->rank);
    if (peer->left) {
      // A peer that freed the communicator is an error only for a call that waits for it.
      const bool missed = (receives_from(*peer) && peer->stream->ended()) ||
                          (peer->send_waits_in == calls_ && peer->stream->send_failed());
      if (!missed) continue;
      return {TUTTI_PEER_FAILED, who + " has freed the communicator; " + latest_call(*peer),
              peer->rank, mark_.epoch};
    }
    if (peer->closed && !peer->broken.ok()) {
      return {
          peer->broken.code(),
          "the connection to " + who + " (" + peer->addresses + ") is lost: " + peer->broken.text(),
          peer->rank, mark_.epoch};
    }
    if (peer->closed) {
      return {TUTTI_PEER_FAILED, who + " died; " + latest_call(*peer), peer->rank, mark_.epoch};
    }
    if (!peer->hung_up && !peer->stream->ended() && !peer->stream->send_failed()) continue;
    if (peer->ended_ns == 0) peer->ended_ns = now_ns;
    if (now_ns - peer->ended_ns < goodbye_patience_ns) continue;
    return {TUTTI_PEER_FAILED,
            who + " has closed its connection (" + peer->addresses + "); " + latest_call(*peer),
            peer->rank, mark_.epoch};
  }
  return {};
}

Status StreamLink::find_silent(uint64_t now_ns) {
  for (const auto& peer : peers_) {
    if (peer == nullptr || !peer->can_be_asked()) continue;
    if (!waits_for(*peer)) continue;
    if (now_ns - peer->inquiry.looked_ns < heartbeat_.look_period_ns()) continue;
    const Contact contact = ask(*peer, now_ns);
    const uint64_t asked_ns = now_ns - peer->inquiry.asked_ns;
    if (heartbeat_.suspects(contact, asked_ns)) ask_others(*peer, now_ns);
    if (heartbeat_.is_lost(contact, asked_ns)) return silence_error(*peer, asked_ns);
  }
  return {};
}

Contact StreamLink::ask(Peer& peer, uint64_t now_ns) {
  const Contact contact = peer.contact();
  if (!heartbeat_.take(peer.inquiry, contact, now_ns)) return contact;
  const std::lock_guard lock(control_mutex_);
  if (!peer.control.flushed()) return contact;
  tell(peer, wire::Type::beat);
  peer.inquiry.ask(now_ns);
  return contact;
}

void StreamLink::ask_others(const Peer& suspect, uint64_t now_ns) {
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer.get() == &suspect || !peer->can_be_asked()) continue;
    if (!waits_for(*peer)) ask(*peer, now_ns);
  }
}

Contact StreamLink::Peer::contact() const {
  Contact contact = contact_of(control.fd());
  contact.moved = stream->sent() + stream->delivered();
  return contact;
}

bool StreamLink::Peer::is_silent() const {
  return closed ? given_up : Heartbeat::is_silent(contact(), inquiry);
}

// A rank whose questions none of several hosts answers is itself the one that is cut off.
bool StreamLink::is_cut_off(const Peer& suspect) const {
  bool others = false;
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer->host.empty() || peer->left) continue;
    if (peer->closed && !peer->given_up) continue;
    if (!peer->is_silent()) return false;
    others = others || peer->host != suspect.host;
  }
  return others;
}

Status StreamLink::silence_error(const Peer& suspect, uint64_t asked_ns) const {
  const std::string own_host = local_address(suspect.control.fd()).host();
  if (is_cut_off(suspect))
    return {TUTTI_PEER_FAILED, says_cut_off(self_, own_host, asked_ns), self_, mark_.epoch};
  return {TUTTI_PEER_FAILED,
          says_silent(suspect.rank, own_host, suspect.host, asked_ns) + "; " + latest_call(suspect),
          suspect.rank, mark_.epoch};
}

std::optional<CallMark> StreamLink::last_seen(int rank) const {
  const auto held = hold();
  return seen_of(rank);
}

std::optional<CallMark> StreamLink::seen_of(int rank) const {
  if (rank < 0 || size_t(rank) >= peers_.size() || peers_[size_t(rank)] == nullptr) {
    return std::nullopt;
  }
  const Peer& peer = *peers_[size_t(rank)];
  std::optional<CallMark> seen = peer.stream->latest();
  if (peer.said_count > 0) {
    const CallMark& said = peer.said[(peer.said_count - 1) % peer.said.size()].mark;
    if (!seen || said.epoch >= seen->epoch) seen = said;
  }
  return seen;
}

}  // namespace tutti::tcp
