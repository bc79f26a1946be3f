#include "tests/network/network.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace tutti::network {

namespace {

constexpr uint64_t us = 1'000, ms = 1'000'000;
constexpr uint64_t never_ns = std::numeric_limits<uint64_t>::max();
constexpr uint64_t begun_ns = 1'000'000 * ms;
constexpr uint64_t first_try_ns = 200 * ms;
constexpr uint64_t longest_job_ns = 3'600'000 * ms;
// What the clock says to who has died: all its limits have passed.
constexpr uint64_t afterlife_ns = 10 * longest_job_ns;

Network* running = nullptr;

// A farewell goes out though nothing before it was acknowledged; else who leaves in order looks
// like one that has died. And a kernel asks a peer that has no room whether it has some by now, by
// which it finds that silent: here it waits.
size_t least_room(Kind kind) {
  const bool silent =
      kind == Kind::unplug || kind == Kind::mute || kind == Kind::deafen || kind == Kind::power_off;
  return silent ? 64 << 10 : 4 << 10;
}

int refused(int error) {
  errno = error;
  return -1;
}

int rank_at(const sockaddr_in& address) { return int(ntohl(address.sin_addr.s_addr) & 0xff) - 1; }

}  // namespace

sockaddr_in address_of(int rank) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x0a000001u + uint32_t(rank));
  return address;
}

short Socket::events() const {
  int found = 0;
  if (state == State::listening) return waiting.empty() ? 0 : POLLIN;
  if (error != 0) found |= POLLERR | POLLHUP | POLLIN | POLLOUT | POLLRDHUP;
  if (state != State::open) return short(found);
  if (!in->unread.empty() || ended) found |= POLLIN;
  if (ended) found |= POLLRDHUP;
  if (ended && shut) found |= POLLHUP;
  if (shut || out->left() > 0) found |= POLLOUT;
  return short(found);
}

// ---------------------------------------------------------------- ranks

Network::Network(uint64_t seed, int nranks, const Fault& fault)
    : random_(seed),
      fault_(fault),
      now_ns_(begun_ns),
      mean_delay_ns_((5 + random_() % 200) * us),
      calls_a_turn_(uint64_t{1} << random_() % 6),
      room_(least_room(fault.kind) << random_() % 5),
      ranks_(size_t(nranks)),
      blocked_(size_t(nranks), std::vector<int>(size_t(nranks), 0)) {}

Network* Network::current() { return rank() >= 0 ? running : nullptr; }

void Network::run(const std::function<void(int)>& rank) {
  running = this;
  turns_.run(ranks_.size(), int(below(ranks_.size())), [&](int self) {
    rank(self);
    ranks_[size_t(self)].ended = true;
    return next_rank();
  });
  running = nullptr;
}

uint64_t Network::clock() {
  now_ns_ += 20 + below(30);
  return now_ns_ + (is_dead(rank()) ? afterlife_ns : 0);
}

// A system call takes its time, and another rank may go on before it.
void Network::step(bool gives_way) {
  const int self = rank();
  Rank& me = ranks_[size_t(self)];
  ++me.calls;
  now_ns_ += 100 + below(2'000);
  if (me.dead) now_ns_ += 100 * us;
  if (fault_.kind != Kind::none && self == fault_.victim && me.calls == fault_.call) strike();
  if (now_ns_ >= due_ns_) move_network();
  if (gives_way || below(calls_a_turn_) == 0 || !can_run(size_t(self)))
    turns_.switch_to(next_rank());
}

void Network::sleep(uint64_t until_ns) {
  Rank& me = ranks_[size_t(rank())];
  me.asleep_until_ns = std::max<uint64_t>(until_ns, 1);
  me.asleep_at = events_;
  turns_.switch_to(next_rank());
  me.asleep_until_ns = 0;
}

bool Network::can_run(size_t rank) const {
  const Rank& one = ranks_[rank];
  if (one.ended || now_ns_ < one.paused_until_ns) return false;
  if (one.dead) return true;
  return one.asleep_until_ns == 0 || now_ns_ >= one.asleep_until_ns || one.asleep_at != events_;
}

// -1 when all have ended.
int Network::next_rank() {
  for (;;) {
    size_t ready[256], n = 0;
    uint64_t due_ns = never_ns;
    bool all_ended = true;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].ended) continue;
      all_ended = false;
      if (can_run(i)) {
        ready[n++] = i;
      } else {
        due_ns = std::min(due_ns, std::max(ranks_[i].asleep_until_ns, ranks_[i].paused_until_ns));
      }
    }
    if (all_ended) return -1;
    if (n > 0) {
      const size_t next = ready[below(n)];
      note(now_ns_ ^ next);
      return int(next);
    }
    due_ns = std::min(due_ns, due_ns_);
    if (due_ns > begun_ns + longest_job_ns) {
      hung_ = true;
      for (Rank& one : ranks_) one.dead = true;
      continue;
    }
    now_ns_ = std::max(now_ns_, due_ns);
    move_network();
  }
}

// ---------------------------------------------------------------- the network

uint64_t Network::delay_ns() {
  // Now and then a packet takes much longer.
  return mean_delay_ns_ / 2 + below(mean_delay_ns_) + (below(50) == 0 ? below(20 * ms) : 0);
}

uint64_t Network::again_ns(uint64_t sent_ns, uint32_t tries) const {
  return sent_ns + first_try_ns * ((uint64_t{1} << std::min(tries, 10u)) - 1);
}

void Network::block(int from, int to, bool yes) {
  blocked_[size_t(from)][size_t(to)] += yes ? 1 : -1;
  due_ns_ = 0;
}
void Network::block_host(int rank, bool yes) {
  for (int other = 0; other < int(ranks_.size()); ++other) {
    if (other == rank) continue;
    if (fault_.kind != Kind::deafen) block(rank, other, yes);
    if (fault_.kind != Kind::mute) block(other, rank, yes);
  }
}

void Network::put(Socket& from, Flow::Segment::What what, std::string bytes) {
  if (from.out == nullptr) return;
  Flow& flow = *from.out;
  Flow::Segment segment{std::move(bytes), what, now_ns_, now_ns_ + delay_ns()};
  if (!flow.segments.empty())
    segment.arrives_ns = std::max(segment.arrives_ns, flow.segments.back().arrives_ns);
  due_ns_ = std::min(due_ns_, segment.arrives_ns);
  flow.on_the_way += segment.bytes.size();
  flow.segments.push_back(std::move(segment));
}

void Network::fail(Socket& socket, int error) {
  if (socket.error != 0) return;
  socket.error = error;
  ++socket.activity;
  ++events_;
}

// When a connection ends of which the other side's kernel answers nothing: neither what was sent
// nor, where that is nothing, the probes (keepalive).
uint64_t Network::ends_ns(const Socket& socket) const {
  if (socket.limit_ns == 0 || socket.error != 0 || socket.out == nullptr) return never_ns;
  const Flow& out = *socket.out;
  if (is_blocked(out.from, out.to) || is_blocked(out.to, out.from))
    return std::max(struck_ns_, socket.heard_ns) + socket.limit_ns;
  return out.segments.empty() ? never_ns : out.segments.front().sent_ns + socket.limit_ns;
}

void Network::deliver(Socket& to, const Flow::Segment& segment) {
  to.heard_ns = now_ns_;
  ++to.activity;
  ++events_;
  switch (segment.what) {
    case Flow::Segment::What::reset:
      return fail(to, ECONNRESET);
    case Flow::Segment::What::end:
      to.ended = true;
      return;
    case Flow::Segment::What::data:
      if (to.closed) return put(to, Flow::Segment::What::reset, {});
      to.in->unread += segment.bytes;
  }
}

// What this side gets, and the acknowledgements of what it has got.
void Network::move(Socket& to) {
  if (to.in == nullptr) return;
  Flow& flow = *to.in;
  while (flow.arrived < flow.segments.size()) {
    Flow::Segment& next = flow.segments[flow.arrived];
    if (next.arrives_ns > now_ns_) break;
    if (is_blocked(flow.from, flow.to)) {
      next.arrives_ns = again_ns(next.sent_ns, ++next.tries + 1);
      // Those behind it come no earlier.
      for (size_t i = flow.arrived + 1; i < flow.segments.size(); ++i) {
        Flow::Segment& behind = flow.segments[i];
        behind.arrives_ns = std::max(behind.arrives_ns, next.arrives_ns);
      }
      break;
    }
    next.acknowledged_ns = now_ns_ + delay_ns();
    ++flow.arrived;
    note(now_ns_ ^ next.bytes.size());
    deliver(to, next);
  }
  if (const auto from = to.other.lock(); acknowledge(flow) && from != nullptr) {
    from->heard_ns = now_ns_;
    ++from->activity;
    ++events_;
  }
}

bool Network::acknowledge(Flow& flow) {
  bool some = false;
  while (flow.arrived > 0) {
    Flow::Segment& first = flow.segments.front();
    if (first.acknowledged_ns > now_ns_) break;
    if (is_blocked(flow.to, flow.from)) {
      first.acknowledged_ns = again_ns(first.sent_ns, ++first.tries + 1);
      break;
    }
    flow.on_the_way -= first.bytes.size();
    flow.acknowledged += first.bytes.size();
    flow.segments.pop_front();
    --flow.arrived;
    some = true;
  }
  return some;
}

void Network::connect_to_listener(Dial& dial) {
  const int to = rank_at(dial.socket->peer);
  std::shared_ptr<Socket> listener;
  if (to >= 0 && to < int(ranks_.size()))
    listener = listeners_[to][ntohs(dial.socket->peer.sin_port)].lock();
  dial.refused = listener == nullptr || listener->closed;
  if (dial.refused) return;
  auto made = std::make_shared<Socket>();
  made->rank = listener->rank;
  made->own = dial.socket->peer;
  made->peer = dial.socket->own;
  made->state = Socket::State::open;
  made->in = dial.socket->out = std::make_shared<Flow>();
  made->out = dial.socket->in = std::make_shared<Flow>();
  const int from = dial.socket->rank;
  *made->in = {from, to, room_, {}, 0, {}, 0};
  *made->out = {to, from, room_, {}, 0, {}, 0};
  made->other = dial.socket;
  dial.socket->other = made;
  listener->waiting.push_back(made);
  ++listener->activity;
  ++events_;
  sockets_.push_back(std::move(made));
}

// True: it is over.
bool Network::move_dial(Dial& dial) {
  if (dial.socket->closed) return true;
  if (dial.arrives_ns > now_ns_) return false;
  const int from = dial.socket->rank, to = rank_at(dial.socket->peer);
  const bool known = to >= 0 && to < int(ranks_.size());
  if (known && (dial.answer ? is_blocked(to, from) : is_blocked(from, to))) {
    dial.arrives_ns = again_ns(dial.began_ns, ++dial.tries + 1);
    return false;
  }
  if (!dial.answer) {
    connect_to_listener(dial);
    dial.answer = true;
    dial.arrives_ns = now_ns_ + delay_ns();
    return false;
  }
  ++dial.socket->activity;
  ++events_;
  if (dial.refused) {
    fail(*dial.socket, ECONNREFUSED);
  } else {
    dial.socket->state = Socket::State::open;
  }
  return true;
}

void Network::move_network() {
  if (heals_ns_ != 0 && now_ns_ >= heals_ns_) {
    heals_ns_ = 0;
    block_host(fault_.victim, false);
  }
  std::erase_if(dials_, [this](Dial& dial) { return move_dial(dial); });
  for (size_t i = 0; i < sockets_.size(); ++i) {
    const std::shared_ptr<Socket> socket = sockets_[i];
    move(*socket);
    if (now_ns_ >= ends_ns(*socket)) fail(*socket, ETIMEDOUT);
  }
  std::erase_if(sockets_, [](const std::shared_ptr<Socket>& socket) {
    const auto other = socket->other.lock();
    const bool idle = socket->out == nullptr || socket->error != 0 || socket->out->segments.empty();
    return socket->closed && (other == nullptr || (other->closed && idle));
  });
  due_ns_ = next_event_ns();
}

uint64_t Network::next_event_ns() const {
  uint64_t due = heals_ns_ != 0 ? heals_ns_ : never_ns;
  for (const Dial& dial : dials_) due = std::min(due, dial.arrives_ns);
  for (const auto& socket : sockets_) {
    if (socket->in != nullptr) {
      const Flow& flow = *socket->in;
      if (flow.arrived < flow.segments.size())
        due = std::min(due, flow.segments[flow.arrived].arrives_ns);
      if (flow.arrived > 0) due = std::min(due, flow.segments.front().acknowledged_ns);
    }
    due = std::min(due, ends_ns(*socket));
  }
  return due;
}

// ---------------------------------------------------------------- faults

void Network::strike() {
  struck_ns_ = now_ns_;
  Rank& victim = ranks_[size_t(fault_.victim)];
  switch (fault_.kind) {
    case Kind::none:
      return;
    case Kind::kill:
      victim.dead = true;
      for (auto& [fd, thing] : things_) {
        if (thing.rank == fault_.victim && thing.socket != nullptr) release(thing.socket);
      }
      ++events_;
      return;
    case Kind::power_off:
      victim.dead = true;
      block_host(fault_.victim, true);
      return;
    case Kind::pause:
      victim.paused_until_ns = now_ns_ + 1 * ms + below(900 * ms);
      return;
    case Kind::hiccup:
      block_host(fault_.victim, true);
      due_ns_ = 0;
      heals_ns_ = now_ns_ + 1 * ms + below(500 * ms);
      return;
    case Kind::unplug:
    case Kind::mute:
    case Kind::deafen:
      return block_host(fault_.victim, true);
    case Kind::reset:
      return reset_one();
    case Kind::flip:
    case Kind::leave_out:
    case Kind::repeat:
    case Kind::insert:
      garbles_ = true;
  }
}

void Network::reset_one() {
  std::vector<std::shared_ptr<Socket>> its;
  for (const auto& socket : sockets_) {
    if (socket->rank == fault_.victim && socket->state == Socket::State::open && !socket->closed)
      its.push_back(socket);
  }
  if (its.empty()) {  // soon
    ++fault_.call;
    struck_ns_ = 0;
    return;
  }
  const auto one = its[below(its.size())], other = one->other.lock();
  fail(*one, ECONNRESET);
  if (other != nullptr) fail(*other, ECONNRESET);
}

void Network::garble(std::string& bytes) {
  garbles_ = false;
  const size_t at = below(bytes.size()), n = 1 + below(std::min<size_t>(bytes.size() - at, 100));
  switch (fault_.kind) {
    case Kind::leave_out:
      bytes.erase(at, n);
      return;
    case Kind::repeat:
      bytes.insert(at, bytes.substr(at, n));
      return;
    case Kind::insert: {
      std::string more(n, '\0');
      for (char& byte : more) byte = char(random_());
      bytes.insert(at, more);
      return;
    }
    default:
      bytes[at] = char(bytes[at] ^ 1 << below(8));
  }
}

// ---------------------------------------------------------------- descriptors

int Network::add(Thing thing) {
  things_[next_descriptor_] = std::move(thing);
  return next_descriptor_++;
}
Network::Thing* Network::find(int fd) {
  const auto found = things_.find(fd);
  return found == things_.end() ? nullptr : &found->second;
}
Socket* Network::socket_of(int fd) {
  Thing* const thing = find(fd);
  return thing == nullptr ? nullptr : thing->socket.get();
}

int Network::make_socket() {
  auto made = std::make_shared<Socket>();
  made->rank = rank();
  made->own = address_of(rank());
  return add({rank(), made, false, false, 0, {}});
}
int Network::make_epoll() { return add({rank(), nullptr, true, false, 0, {}}); }
int Network::make_bell() { return add({rank(), nullptr, false, true, 0, {}}); }
int Network::duplicate(int fd) {
  Thing* const thing = find(fd);
  if (thing == nullptr) return refused(EBADF);
  return add({thing->rank, nullptr, false, false, 0, {}});  // nobody uses one
}

void Network::release(const std::shared_ptr<Socket>& socket) {
  if (std::exchange(socket->closed, true)) return;
  if (socket->state == Socket::State::listening) {
    for (const auto& one : socket->waiting) {
      put(*one, Flow::Segment::What::reset, {});
      one->closed = true;
    }
    socket->waiting.clear();
  }
  if (socket->state != Socket::State::open || socket->error != 0) return;
  if (!socket->in->unread.empty()) {
    put(*socket, Flow::Segment::What::reset, {});
  } else if (!socket->shut) {
    put(*socket, Flow::Segment::What::end, {});
  }
}

int Network::close(int fd) {
  Thing* const thing = find(fd);
  if (thing == nullptr) return refused(EBADF);
  for (auto& [other, one] : things_) one.watched.erase(fd);
  if (thing->socket != nullptr) release(thing->socket);
  things_.erase(fd);
  return 0;
}

int Network::bind(int fd, const sockaddr_in& to) {
  Socket* const socket = socket_of(fd);
  if (socket == nullptr) return refused(EBADF);
  const int at = rank_at(to);
  if (to.sin_addr.s_addr != address_of(at).sin_addr.s_addr) return refused(EADDRNOTAVAIL);
  socket->rank = at;  // one rank may move on another one's requests
  find(fd)->rank = at;
  socket->own = to;
  if (to.sin_port == 0) socket->own.sin_port = htons(next_port_++);
  return 0;
}

int Network::listen(int fd) {
  Thing* const thing = find(fd);
  if (thing == nullptr || thing->socket == nullptr) return refused(EBADF);
  Socket& socket = *thing->socket;
  socket.state = Socket::State::listening;
  listeners_[socket.rank][ntohs(socket.own.sin_port)] = thing->socket;
  return 0;
}

int Network::connect(int fd, const sockaddr_in& to) {
  Thing* const thing = find(fd);
  if (thing == nullptr || thing->socket == nullptr) return refused(EBADF);
  step(false);
  Socket& socket = *thing->socket;
  if (is_dead(socket.rank)) return refused(ENETUNREACH);
  if (socket.own.sin_port == 0) socket.own.sin_port = htons(next_port_++);
  socket.peer = to;
  socket.state = Socket::State::connecting;
  sockets_.push_back(thing->socket);
  dials_.push_back({thing->socket, now_ns_ + delay_ns(), now_ns_});
  due_ns_ = 0;
  return refused(EINPROGRESS);
}

int Network::accept(int fd) {
  Thing* const thing = find(fd);
  if (thing == nullptr || thing->socket == nullptr) return refused(EBADF);
  Socket& socket = *thing->socket;
  if (socket.waiting.empty() || is_dead(socket.rank)) return refused(EAGAIN);
  const std::shared_ptr<Socket> one = socket.waiting.front();
  socket.waiting.pop_front();
  return add({socket.rank, one, false, false, 0, {}});
}

int Network::address(int fd, bool peer, sockaddr_in* out) {
  const Socket* const socket = socket_of(fd);
  if (socket == nullptr) return refused(EBADF);
  if (peer && socket->state != Socket::State::open) return refused(ENOTCONN);
  *out = peer ? socket->peer : socket->own;
  return 0;
}

int Network::take_error(int fd, int* out) {
  Socket* const socket = socket_of(fd);
  if (socket == nullptr) return refused(EBADF);
  *out = socket->tell_error();
  return 0;
}

int Network::contact(int fd, Contact* out) {
  const Socket* const socket = socket_of(fd);
  if (socket == nullptr) return refused(EBADF);
  *out = {};
  if (socket->out == nullptr) return 0;
  out->acknowledged = socket->out->acknowledged;
  for (const Flow::Segment& one : socket->out->segments) {
    out->tries = std::max(out->tries, one.tries);
    out->unacknowledged += uint32_t(one.bytes.size());
  }
  return 0;
}

int Network::set_limit(int fd, uint64_t limit_ns) {
  Socket* const socket = socket_of(fd);
  if (socket == nullptr) return refused(EBADF);
  socket->limit_ns = limit_ns;
  return 0;
}

int Network::shut(int fd) {
  Socket* const socket = socket_of(fd);
  if (socket == nullptr) return refused(EBADF);
  if (socket->state != Socket::State::open) return refused(ENOTCONN);
  if (is_dead(socket->rank) || socket->error != 0) return 0;
  if (!std::exchange(socket->shut, true)) put(*socket, Flow::Segment::What::end, {});
  return 0;
}

ssize_t Network::send(int fd, const iovec* parts, size_t n) {
  step(false);
  Socket* const socket = socket_of(fd);
  if (socket == nullptr) return refused(EBADF);
  if (is_dead(socket->rank)) return refused(EPIPE);
  if (socket->error != 0) {
    const int error = socket->tell_error();
    return refused(error == 0 ? EPIPE : error == ETIMEDOUT ? ETIMEDOUT : ECONNRESET);
  }
  if (socket->state != Socket::State::open) return refused(ENOTCONN);
  if (socket->shut) return refused(EPIPE);
  Flow& flow = *socket->out;
  size_t room = flow.left();
  if (below(4) == 0) room = std::min(room, 1 + below(2'000));  // the kernel may take less
  std::string bytes;
  for (size_t i = 0; i < n; ++i) {
    const size_t some = std::min(parts[i].iov_len, room - bytes.size());
    bytes.append(static_cast<const char*>(parts[i].iov_base), some);
  }
  if (bytes.empty()) return refused(EAGAIN);
  const auto taken = ssize_t(bytes.size());
  // Packets, of which each may be late.
  if (garbles_ && socket->rank == fault_.victim) garble(bytes);
  const size_t most = 1'500 + below(30'000);
  for (size_t at = 0; at < bytes.size(); at += most)
    put(*socket, Flow::Segment::What::data, bytes.substr(at, most));
  return taken;
}

ssize_t Network::receive(int fd, const iovec* parts, size_t n) {
  step(false);
  Socket* const socket = socket_of(fd);
  if (socket == nullptr) return refused(EBADF);
  if (is_dead(socket->rank)) return refused(ECONNRESET);
  if (socket->in == nullptr || socket->in->unread.empty()) {
    if (socket->error != 0) {
      const int error = socket->tell_error();
      return error == 0 ? 0 : refused(error);
    }
    if (socket->state != Socket::State::open) return refused(ENOTCONN);
    return socket->ended ? 0 : refused(EAGAIN);
  }
  std::string& unread = socket->in->unread;
  const bool was_full = socket->in->left() == 0;
  size_t taken = 0;
  for (size_t i = 0; i < n && taken < unread.size(); ++i) {
    const size_t some = std::min(parts[i].iov_len, unread.size() - taken);
    std::memcpy(parts[i].iov_base, unread.data() + taken, some);
    taken += some;
  }
  unread.erase(0, taken);
  if (const auto other = socket->other.lock(); was_full && other != nullptr) {
    ++other->activity;
    ++events_;
  }
  return ssize_t(taken);
}

// ---------------------------------------------------------------- waiting

short Network::events_of(int fd) {
  Thing* const thing = find(fd);
  if (thing == nullptr) return POLLNVAL;
  if (is_dead(thing->rank)) return POLLERR | POLLHUP | POLLIN | POLLRDHUP;
  if (thing->is_bell) return thing->rings != 0 ? POLLIN : 0;
  if (thing->socket != nullptr) return thing->socket->events();
  if (!thing->is_epoll) return 0;
  for (const auto& [of, one] : thing->watched) {
    const short found = events_of(of);
    const auto* const socket = socket_of(of);
    const bool edge = (one.event.events & EPOLLET) != 0;
    if (edge && socket != nullptr && socket->activity == one.seen) continue;
    if ((uint32_t(found) & (one.event.events | POLLERR | POLLHUP)) != 0) return POLLIN;
  }
  return 0;
}

int Network::poll(pollfd* set, size_t n, uint64_t wait_ns) {
  step(wait_ns != 0);
  const uint64_t until_ns = wait_ns > never_ns - now_ns_ ? never_ns : now_ns_ + wait_ns;
  for (;;) {
    int ready = 0;
    for (size_t i = 0; i < n; ++i) {
      set[i].revents = short(events_of(set[i].fd) & (set[i].events | POLLERR | POLLHUP | POLLNVAL));
      ready += set[i].revents != 0;
    }
    if (ready > 0 || now_ns_ >= until_ns || is_dead(rank())) return ready;
    sleep(until_ns);
  }
}

int Network::epoll_change(int fd, int what, int of, const epoll_event* event) {
  Thing* const thing = find(fd);
  if (thing == nullptr || !thing->is_epoll || find(of) == nullptr) return refused(EBADF);
  if (what == EPOLL_CTL_DEL) return thing->watched.erase(of) == 1 ? 0 : refused(ENOENT);
  thing->watched[of] = {*event, std::numeric_limits<uint64_t>::max()};
  return 0;
}

int Network::epoll_look(int fd, epoll_event* out, int most) {
  step(false);
  Thing* const thing = find(fd);
  if (thing == nullptr || !thing->is_epoll) return refused(EBADF);
  int n = 0;
  for (auto& [of, one] : thing->watched) {
    const auto found = uint32_t(events_of(of)) & (one.event.events | POLLERR | POLLHUP);
    if (found == 0 || n == most) continue;
    if (const Socket* const socket = socket_of(of); socket != nullptr) {
      if ((one.event.events & EPOLLET) != 0 && socket->activity == one.seen) continue;
      one.seen = socket->activity;
    }
    out[n] = one.event;
    out[n++].events = found;
  }
  return n;
}

int Network::ring(int fd) {
  Thing* const thing = find(fd);
  if (thing == nullptr || !thing->is_bell) return refused(EBADF);
  ++thing->rings;
  ++events_;
  return 0;
}
int Network::take_rings(int fd, uint64_t* out) {
  Thing* const thing = find(fd);
  if (thing == nullptr || !thing->is_bell) return refused(EBADF);
  if (thing->rings == 0) return refused(EAGAIN);
  *out = std::exchange(thing->rings, 0);
  return 0;
}

}  // namespace tutti::network
