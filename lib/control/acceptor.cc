#include "lib/control/acceptor.h"

#include <algorithm>
#include <cerrno>

#include "lib/base/clock.h"
#include "lib/base/process.h"

namespace tutti {

namespace {

constexpr uint64_t try_ns = 2'000'000'000u;  // a connection, without its handshake
constexpr uint64_t redial_ns = 50'000'000u;
constexpr uint64_t first_pause_ns = 10'000'000u;  // after a refusal; doubles each time
constexpr int most_refusals = 8;
constexpr size_t accepts_a_step = 64;

bool would_block(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

// Whether this process itself must not make the call, whoever is at the other end.
bool is_forbidden(int error_number) {
  return error_number == EPERM || error_number == EACCES || error_number == ENOSYS;
}

// Somebody may listen there later.
bool may_pass(int error_number) {
  switch (error_number) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case EAGAIN:
      return true;
    default:
      return false;
  }
}

enum class Moved { all, some, closed, forbidden };

Moved not_moved(int error_number) {
  if (would_block(error_number)) return Moved::some;
  return is_forbidden(error_number) ? Moved::forbidden : Moved::closed;
}

// Sends what the handshake has to send, receives what it wants. `closed`: the other side is gone;
// `forbidden`: errno says how.
Moved exchange_bytes(int fd, Handshake& handshake) {
  for (;;) {
    const auto output = handshake.output();
    if (!output.empty()) {
      const ssize_t sent = ::send(fd, output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return not_moved(errno);
      handshake.sent(size_t(sent));
      continue;
    }
    if (handshake.state() != Handshake::State::running) return Moved::all;
    uint8_t bytes[128];
    const size_t wants = std::min(sizeof(bytes), handshake.wants());
    const ssize_t got = ::recv(fd, bytes, wants, MSG_DONTWAIT);
    if (got < 0) return not_moved(errno);
    if (got == 0) return Moved::closed;
    handshake.receive({bytes, size_t(got)});
  }
}

short events_of(const Handshake& handshake) {
  return handshake.output().empty() ? POLLIN : POLLOUT;
}

}  // namespace

Acceptor::Acceptor(Fd listener, const JobKey& key, uint8_t purposes, uint64_t job, int server,
                   size_t expected)
    : listener_(std::move(listener)),
      key_(key),
      purposes_(purposes),
      job_(job),
      server_(server),
      most_greeted_(2 * expected) {}

void Acceptor::watch(std::vector<pollfd>& set) const {
  if (!listener_) return;
  set.push_back({listener_.get(), POLLIN, 0});
  for (const Pending& one : pending_) {
    set.push_back({one.socket.get(), events_of(one.handshake), 0});
  }
}

uint64_t Acceptor::due_ns() const {
  for (const Pending& one : pending_) {
    if (!one.handshake.greeted()) return one.due_ns;
  }
  return never_ns;
}

bool Acceptor::turn_out_oldest(bool greeted) {
  const auto oldest = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& one) {
    return one.handshake.greeted() == greeted;
  });
  if (oldest == pending_.end()) return false;
  pending_.erase(oldest);
  ++refused_;
  return true;
}

void Acceptor::limit() {
  const auto greeted =
      size_t(std::count_if(pending_.begin(), pending_.end(),
                           [](const Pending& one) { return one.handshake.greeted(); }));
  if (pending_.size() - greeted > most_strangers) turn_out_oldest(false);
  if (greeted > most_greeted_) turn_out_oldest(true);
}

Fd Acceptor::accept_one() {
  const process::NoFork together;
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int error_number = errno;
  process::keep_from_children(socket);
  errno = error_number;
  return socket;
}

Status Acceptor::accept(uint64_t now_ns, std::vector<Guest>* in) {
  int refused_by_system = 0;
  bool tried = false;
  for (size_t i = 0; i < accepts_a_step; ++i) {
    Fd socket = accept_one();
    if (!socket) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        const int error_number = errno;
        if (raise_descriptor_limit(error_number, &tried)) continue;
        // The descriptor of who is turned out serves the next one.
        if (!turn_out_oldest(false) && !turn_out_oldest(true)) {
          return resource_error("cannot accept a rank's connection", error_number);
        }
        continue;
      }
      // One is an error of that connection, which is gone; nothing else is none of them.
      if (++refused_by_system == int(accepts_a_step)) {
        return system_error("cannot accept a rank's connection", errno);
      }
      continue;
    }
    JobKey random;
    TUTTI_TRY(random_bytes(random));
    pending_.push_back({std::move(socket),
                        Handshake::server(key_, purposes_, job_, server_, random),
                        now_ns + patience_ns});
    // A member has sent its hello by now, which tells it from a stranger that only takes a place.
    // Who is admitted must not be turned out any more.
    Next next = Next::wait;
    TUTTI_TRY(step(pending_.back(), &next));
    if (next == Next::wait) {
      limit();
      continue;
    }
    if (next == Next::enter) enter(pending_.back(), in);
    refused_ += next == Next::leave;
    pending_.pop_back();
  }
  return {};
}

Status Acceptor::step(Pending& pending, Next* next) {
  const Moved moved = exchange_bytes(pending.socket.get(), pending.handshake);
  if (moved == Moved::forbidden) return system_error("cannot answer a rank's call", errno);
  if (moved == Moved::closed || pending.handshake.state() == Handshake::State::refused) {
    *next = Next::leave;
  } else {
    *next = moved == Moved::all ? Next::enter : Next::wait;
  }
  return {};
}

void Acceptor::enter(Pending& pending, std::vector<Guest>* in) {
  in->push_back({std::move(pending.socket), pending.handshake});
}

Status Acceptor::advance(uint64_t now_ns, std::vector<Guest>* in) {
  if (!listener_) return {};
  TUTTI_TRY(accept(now_ns, in));
  Status stepped;
  std::erase_if(pending_, [&](Pending& one) {
    Next next = Next::wait;
    if (stepped.ok()) stepped = step(one, &next);
    if (next == Next::enter) {
      enter(one, in);
      return true;
    }
    const bool late = now_ns >= one.due_ns && !one.handshake.greeted();
    const bool leaves = next == Next::leave || late;
    refused_ += leaves;
    return leaves;
  });
  return stepped;
}

void Acceptor::close() {
  pending_.clear();
  listener_.reset();
}

// ---------------------------------------------------------------- calling

std::string Caller::who() const {
  return rank_name(to_.claim.server) + " at " + to_.address.text();
}

void Caller::fail(Status error) {
  error_ = std::move(error);
  state_ = State::failed;
  socket_.reset();
  due_ns_ = never_ns;
}

void Caller::watch(std::vector<pollfd>& set) const {
  if (state_ != State::calling || step_ == Step::idle) return;
  const short events = step_ == Step::connecting ? short(POLLOUT) : events_of(handshake_);
  set.push_back({socket_.get(), events, 0});
}

void Caller::advance(uint64_t now_ns) {
  if (state_ == State::calling && step_ == Step::idle && now_ns >= due_ns_) dial(now_ns);
  if (state_ == State::calling && step_ == Step::connecting) check_connected(now_ns);
  if (state_ == State::calling && step_ == Step::shaking_hands) shake_hands(now_ns);
}

void Caller::dial(uint64_t now_ns) {
  JobKey random;
  Status made = random_bytes(random);
  if (made.ok()) {
    const process::NoFork together;
    made = make_socket(to_.address, &socket_);
    process::keep_from_children(socket_);
  }
  if (!made.ok()) return fail(std::move(made));
  handshake_ = Handshake::client(to_.key, to_.claim, random);
  due_ns_ = now_ns + try_ns;
  step_ = Step::connecting;
  if (to_.from.any.sa_family == to_.address.any.sa_family) {
    Address from = to_.from;
    from.set_port(0);
    // The port is chosen by connect(): then it need only be unique for this destination, and ranks
    // of one host have more connections than there are ports.
    const int yes = 1;
    setsockopt(socket_.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
    if (::bind(socket_.get(), &from.any, from.length()) != 0) {
      return fail(resource_error("cannot call from " + from.host(), errno));
    }
  }
  if (::connect(socket_.get(), &to_.address.any, to_.address.length()) == 0) {
    connected();
  } else if (errno != EINPROGRESS && errno != EINTR) {
    could_not_connect(now_ns, errno);
  }
}

void Caller::check_connected(uint64_t now_ns) {
  pollfd entry{socket_.get(), POLLOUT, 0};
  if (::poll(&entry, 1, 0) == 1) {  // does not wait: a look
    int error_number = 0;
    socklen_t length = sizeof(error_number);
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error_number, &length);
    // A socket that calls an unused port of its own host can connect to itself (simultaneous open).
    if (error_number == 0 && local_address(socket_.get()).text() == to_.address.text()) {
      error_number = ECONNREFUSED;
    }
    if (error_number != 0) return could_not_connect(now_ns, error_number);
    connected();
  } else if (now_ns >= due_ns_) {
    call_again(now_ns, 0);
  }
}

// From here on only the other side ends the try: one that has as much to do as this side answers
// late, and a call given up while it admits this rank would look to it like a rank that has gone.
void Caller::connected() {
  step_ = Step::shaking_hands;
  due_ns_ = never_ns;
}

void Caller::could_not_connect(uint64_t now_ns, int error_number) {
  obstacle_ = error_number;
  if (to_.patient && may_pass(error_number)) return call_again(now_ns, redial_ns);
  if (error_number == ECONNREFUSED || error_number == ECONNRESET) {
    return fail({TUTTI_PEER_FAILED, who() + " does not listen there any more", to_.claim.server});
  }
  fail(resource_error("cannot reach " + who(), error_number));
}

void Caller::shake_hands(uint64_t now_ns) {
  const Moved moved = exchange_bytes(socket_.get(), handshake_);
  if (handshake_.state() == Handshake::State::refused) {
    fail({TUTTI_AUTH, "cannot trust " + who() + ": " + handshake_.reason(), to_.claim.server});
  } else if (moved == Moved::forbidden) {
    fail(system_error("cannot speak with " + who(), errno));
  } else if (moved == Moved::closed) {
    was_refused(now_ns);
  } else if (moved == Moved::all) {
    state_ = State::done;
  }
}

// An acceptor with too many strangers may have dropped this member, so call again; one with another
// key refuses it every time.
void Caller::was_refused(uint64_t now_ns) {
  if (++refusals_ >= most_refusals) {
    return fail({TUTTI_AUTH,
                 who() + " refuses rank " + std::to_string(to_.claim.client) +
                     ": it has another key or belongs to another job",
                 to_.claim.server});
  }
  call_again(now_ns, first_pause_ns << (refusals_ - 1));
}

void Caller::call_again(uint64_t now_ns, uint64_t after_ns) {
  socket_.reset();
  step_ = Step::idle;
  due_ns_ = now_ns + after_ns;
}

}  // namespace tutti
