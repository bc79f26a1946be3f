#include "lib/control/socket.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "lib/base/clock.h"

namespace tutti {

namespace {

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

}  // namespace

bool raise_descriptor_limit(int error_number, bool* tried) {
  if (error_number != EMFILE) return false;
  rlimit limit{};
  const bool lower = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max;
  limit.rlim_cur = limit.rlim_max;
  if (lower && setrlimit(RLIMIT_NOFILE, &limit) == 0) return true;
  return !std::exchange(*tried, true);  // another thread may have raised it since
}

Status resource_error(const std::string& what, int error_number) {
  if (error_number == EMFILE) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return {TUTTI_SYSTEM, what + ": this process has no file descriptors left, its limit is " +
                              std::to_string(limit.rlim_cur) + " (ulimit -n)"};
  }
  if (error_number == ENFILE) {
    return {TUTTI_SYSTEM, what + ": the system has no file descriptors left (fs.file-max)"};
  }
  if (error_number == ENOBUFS) {
    return {TUTTI_NO_MEMORY, what + ": the system has no memory for sockets left"};
  }
  return system_error(what, error_number);
}

Status reserve_descriptors(int fd, size_t count, const std::string& what, std::vector<Fd>* out) {
  bool tried = false;
  while (out->size() < count) {
    Fd place(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (place) {
      out->push_back(std::move(place));
    } else if (const int error_number = errno; !raise_descriptor_limit(error_number, &tried)) {
      return resource_error(
          "cannot have the " + std::to_string(count) + " descriptors that " + what + " need",
          error_number);
    }
  }
  return {};
}

Status make_socket(const Address& like, Fd* out) {
  for (bool tried = false;;) {
    Fd made(::socket(like.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int error_number = errno;
    if (made) {
      *out = std::move(made);
      return {};
    }
    if (!raise_descriptor_limit(error_number, &tried)) {
      return resource_error("cannot make a socket", error_number);
    }
  }
}

Status listen_on(Address* address, Fd* out) {
  Fd made;
  TUTTI_TRY(make_socket(*address, &made));
  // A port that an earlier job has just left (TIME_WAIT) may be used again at once.
  set_option(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(made.get(), &address->any, address->length()) != 0 ||
      ::listen(made.get(), SOMAXCONN) != 0) {
    return resource_error("cannot listen on " + address->text(), errno);
  }
  *address = local_address(made.get());
  *out = std::move(made);
  return {};
}

Address local_address(int fd) {
  Address address;
  socklen_t length = sizeof(address.v6);
  if (getsockname(fd, &address.any, &length) != 0) return {};
  return address;
}

Address peer_address(int fd) {
  Address address;
  socklen_t length = sizeof(address.v6);
  if (getpeername(fd, &address.any, &length) != 0) return {};
  return address;
}

bool is_within_host(int fd) {
  const Address peer = peer_address(fd);
  return peer.is_loopback() || peer.host() == local_address(fd).host();
}

int unacknowledged_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

Contact contact_of(int fd) {
  tcp_info info{};  // of which kernels before 4.1 fill less
  socklen_t length = offsetof(tcp_info, tcpi_bytes_received);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
      length < offsetof(tcp_info, tcpi_pacing_rate)) {
    return {};
  }
  return {unacknowledged_bytes(fd) != 0 || info.tcpi_probes != 0,
          uint32_t(info.tcpi_retransmits) + info.tcpi_probes, info.tcpi_bytes_acked};
}

void tune(int fd, int limit_s) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (limit_s == 0 || is_within_host(fd)) return;
  const int period_s = std::max(limit_s / 4, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, period_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, period_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, limit_s * 1000);
}

int later_than_beats_s(uint64_t heartbeat_ns, int least_s) {
  constexpr uint64_t most_s = 100'000;  // more would not go into the kernel's milliseconds
  const uint64_t beats_s = 2 * (heartbeat_ns / 1'000'000'000u + 1);
  return std::max(least_s, int(std::min(beats_s, most_s)));
}

void close_in_order(int fd) {
  constexpr size_t most_drained_bytes = 1 << 20;
  std::byte waste[4096];
  ::shutdown(fd, SHUT_WR);
  for (size_t drained = 0; drained < most_drained_bytes;) {
    const ssize_t got = ::recv(fd, waste, sizeof(waste), MSG_DONTWAIT);
    if (got <= 0) return;
    drained += size_t(got);
  }
}

Status wait_for_events(std::vector<pollfd>& set, uint64_t until_ns) {
  const uint64_t now = now_ns();
  const uint64_t left = until_ns > now ? until_ns - now : 0;
  const timespec timeout{time_t(left / 1'000'000'000u), long(left % 1'000'000'000u)};
  if (::ppoll(set.data(), nfds_t(set.size()), &timeout, nullptr) < 0 && errno != EINTR) {
    return system_error("cannot wait on sockets", errno);
  }
  return {};
}

}  // namespace tutti
