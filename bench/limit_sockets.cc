#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "bench/error.h"
#include "bench/limit.h"

namespace tutti::bench {
namespace {

constexpr int tries_before_poll = 2000;
constexpr size_t most_a_call = size_t(1) << 20;

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& what) {
  throw Failure("measuring the limit of sockets: " + what + ": " + std::strerror(errno));
}

using std::chrono::milliseconds;

// False: nothing happened for so long.
template <size_t n>
bool ready(pollfd (&&fds)[n], milliseconds patience) {
  return poll(fds, n, int(patience.count())) != 0;
}

Socket listen_on_loopback(uint16_t* port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (socket.fd() < 0 || bind(socket.fd(), generic, sizeof address) != 0 ||
      listen(socket.fd(), 8) != 0 || getsockname(socket.fd(), generic, &length) != 0)
    fail("listening");
  *port = ntohs(address.sin_port);
  return socket;
}

void send_at_once(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Of no descriptor where nothing listens at the port, or does not answer.
Socket connect_to(uint16_t port, milliseconds patience) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (socket.fd() < 0) fail("making a socket");
  int error = 0;
  if (connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    socklen_t length = sizeof error;
    if (errno != EINPROGRESS || !ready({{socket.fd(), POLLOUT, 0}}, patience) ||
        getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0)
      return Socket();
  }
  send_at_once(socket);
  return socket;
}

Socket accept_from(const Socket& listener, int rank, milliseconds patience) {
  if (!ready({{listener.fd(), POLLIN, 0}}, patience)) {
    errno = ETIMEDOUT;
    fail("waiting for rank " + std::to_string(rank) + " to connect");
  }
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.fd() < 0) fail("accepting");
  send_at_once(socket);
  return socket;
}

// What a rank of any implementation must send and receive.
struct Amounts {
  size_t send, receive;
};

Amounts amounts(const LimitOf& what, int rank, int nranks, size_t bytes) {
  const auto n = size_t(nranks);
  const size_t others = (bytes * (n - 1) + n - 1) / n;  // bytes (n-1)/n, rounded up
  const std::string& name = what.collective;
  // Along a chain that begins at `begin`, pipelined.
  auto chain = [&](int begin) {
    const int place = (rank - begin + nranks) % nranks;
    return Amounts{place < nranks - 1 ? bytes : 0, place > 0 ? bytes : 0};
  };
  const bool root = rank == what.root;
  if (name == "allreduce") {
    const size_t both = (2 * bytes * (n - 1) + n - 1) / n;
    return {both, both};
  }
  if (name == "broadcast") return chain(what.root);
  if (name == "reduce") return chain((what.root + 1) % nranks);
  if (name == "scan" || name == "exscan") return chain(0);
  if (name == "sendrecv") return {bytes, bytes};
  if (name == "gather") return {root ? 0 : others, root ? others : 0};
  if (name == "scatter") return {root ? others : 0, root ? 0 : others};
  return {others, others};
}

class SocketExchange : public Limit {
 public:
  // Collective. Null on all ranks if one cannot reach its neighbour: loopback is a network
  // namespace's own.
  static std::shared_ptr<SocketExchange> create(const Rank& me, const LimitOf& what,
                                                milliseconds patience) {
    std::shared_ptr<SocketExchange> exchange(new SocketExchange(me, what, patience));
    uint16_t port = 0;
    const Socket listener = listen_on_loopback(&port);
    std::vector<uint16_t> ports(size_t(me.nranks()));
    me.gather(&port, ports.data(), sizeof port);
    // Two ranks need one connection: its acknowledgements travel with the data.
    const bool pair = me.nranks() == 2;
    const int right = (me.rank() + 1) % me.nranks();
    const int left = (me.rank() + me.nranks() - 1) % me.nranks();
    const bool connects = !pair || me.first();
    if (connects) exchange->to_right_ = connect_to(ports[size_t(right)], patience);
    const bool reached = !connects || exchange->to_right_.fd() >= 0;
    if (me.sum(reached) != uint64_t(me.nranks())) return nullptr;
    if (!pair || !me.first()) exchange->from_left_ = accept_from(listener, left, patience);
    exchange->out_fd_ = (connects ? exchange->to_right_ : exchange->from_left_).fd();
    exchange->in_fd_ = (connects && pair ? exchange->to_right_ : exchange->from_left_).fd();
    return exchange;
  }

  void run(size_t bytes) override {
    auto [to_send, to_receive] = amounts(what_, rank_, nranks_, bytes);
    make_room(to_send, to_receive);
    const size_t half = buffer_.size() / 2;
    for (int idle = 0; to_send || to_receive;) {
      const size_t sent = to_send ? move_out(std::min(to_send, half)) : 0;
      const size_t received = to_receive ? move_in(half, std::min(to_receive, half)) : 0;
      to_send -= sent;
      to_receive -= received;
      idle = sent || received ? 0 : idle + 1;
      if (idle > tries_before_poll) wait(to_send > 0, to_receive > 0);
    }
  }
  // Longer ones go through the same buffer again and again.
  Touched touched(size_t bytes) override {
    const auto [to_send, to_receive] = amounts(what_, rank_, nranks_, bytes);
    make_room(to_send, to_receive);
    const size_t half = buffer_.size() / 2;
    return {buffer_.data(), std::min(to_send, half), buffer_.data() + half,
            std::min(to_receive, half)};
  }

 private:
  SocketExchange(const Rank& me, const LimitOf& what, milliseconds patience)
      : what_(what), rank_(me.rank()), nranks_(me.nranks()), patience_(patience) {}

  void make_room(size_t to_send, size_t to_receive) {
    const size_t a_call = std::min(std::max(to_send, to_receive), most_a_call);
    if (buffer_.size() < 2 * a_call) buffer_.assign(2 * a_call, 1);
  }
  size_t move_out(size_t bytes) {
    return moved(::send(out_fd_, buffer_.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  size_t move_in(size_t at, size_t bytes) {
    const ssize_t got = ::recv(in_fd_, buffer_.data() + at, bytes, MSG_DONTWAIT);
    if (got == 0) {
      errno = ECONNRESET;
      fail("receiving");
    }
    return moved(got);
  }
  static size_t moved(ssize_t result) {
    if (result >= 0) return size_t(result);
    if (errno != EAGAIN && errno != EINTR) fail("moving bytes");
    return 0;
  }
  void wait(bool sending, bool receiving) {
    if (ready({{sending ? out_fd_ : -1, POLLOUT, 0}, {receiving ? in_fd_ : -1, POLLIN, 0}},
              patience_))
      return;
    errno = ETIMEDOUT;
    fail("waiting for a neighbour");
  }

  LimitOf what_;
  int rank_, nranks_;
  milliseconds patience_;
  Socket to_right_, from_left_;
  int out_fd_ = -1, in_fd_ = -1;
  std::vector<unsigned char> buffer_;
};

}  // namespace

std::vector<LimitWay> socket_limits(const Rank& me, const LimitOf& what, milliseconds patience) {
  if (!has_socket_limit(what.collective, me.nranks())) return {};
  std::shared_ptr<Limit> exchange = SocketExchange::create(me, what, patience);
  if (!exchange) return {};
  return {{"raw sockets", std::move(exchange), 0, SIZE_MAX}};
}

}  // namespace tutti::bench
