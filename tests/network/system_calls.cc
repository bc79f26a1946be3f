// The system calls that the library makes, in place of libc's: those of a Network's ranks are
// answered there, others by libc.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>

#include "tests/network/network.h"

namespace {

using tutti::network::Network;

// libc's own.
#define LIBC(name) \
  static const auto libc = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name))

// Of a descriptor that is the network's; null: it is the kernel's.
Network* network_of(int fd) {
  Network* const network = Network::current();
  return network != nullptr && network->has(fd) ? network : nullptr;
}

int give(const sockaddr_in& from, sockaddr* to, socklen_t* length) {
  std::memcpy(to, &from, std::min<size_t>(*length, sizeof(from)));
  *length = sizeof(from);
  return 0;
}

sockaddr_in v4_of(const sockaddr* address) {
  sockaddr_in v4;
  std::memcpy(&v4, address, sizeof(v4));
  return v4;
}

}  // namespace

extern "C" {

// ---------------------------------------------------------------- time and other ranks

int clock_gettime(clockid_t which, timespec* out) noexcept {
  LIBC(clock_gettime);
  Network* const network = Network::current();
  if (network == nullptr) return libc(which, out);
  const uint64_t now = network->clock();
  *out = {time_t(now / 1'000'000'000u), long(now % 1'000'000'000u)};
  return 0;
}

int sched_yield() noexcept {
  LIBC(sched_yield);
  Network* const network = Network::current();
  if (network == nullptr) return libc();
  network->yield();
  return 0;
}

// A rank that waits for another one's lock gives way: only one runs at a time.
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  LIBC(pthread_mutex_lock);
  Network* const network = Network::current();
  if (network == nullptr) return libc(mutex);
  int error;
  while ((error = pthread_mutex_trylock(mutex)) == EBUSY) network->yield();
  return error;
}

// ---------------------------------------------------------------- hosts

ssize_t readlink(const char* path, char* to, size_t most) noexcept {
  LIBC(readlink);
  const Network* const network = Network::current();
  if (network == nullptr || std::strcmp(path, "/proc/self/ns/net") != 0)
    return libc(path, to, most);
  return snprintf(to, most, "net:[%d]", network->rank() + 1);
}

int getifaddrs(ifaddrs** out) noexcept {
  LIBC(getifaddrs);
  const Network* const network = Network::current();
  if (network == nullptr) return libc(out);
  static ifaddrs one;
  static sockaddr_in address;
  static char name[] = "eth0";
  address = tutti::network::address_of(network->rank());
  one = {};
  one.ifa_name = name;
  one.ifa_flags = IFF_UP | IFF_RUNNING;
  one.ifa_addr = reinterpret_cast<sockaddr*>(&address);
  *out = &one;
  return 0;
}
void freeifaddrs(ifaddrs* list) noexcept {
  LIBC(freeifaddrs);
  if (Network::current() == nullptr) libc(list);
}

// ---------------------------------------------------------------- descriptors

int close(int fd) {
  LIBC(close);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd) : network->close(fd);
}

ssize_t read(int fd, void* to, size_t most) {
  LIBC(read);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, to, most);
  uint64_t rings = 0;
  if (network->take_rings(fd, &rings) != 0) return -1;
  std::memcpy(to, &rings, sizeof(rings));
  return sizeof(rings);
}
ssize_t write(int fd, const void* from, size_t bytes) {
  LIBC(write);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, from, bytes);
  return network->ring(fd) == 0 ? ssize_t(bytes) : -1;
}

int fcntl64(int fd, int what, ...) {
  LIBC(fcntl64);
  va_list list;
  va_start(list, what);
  void* const argument = va_arg(list, void*);
  va_end(list);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, what, argument);
  return what == F_DUPFD_CLOEXEC ? network->duplicate(fd) : 0;
}

int eventfd(unsigned first, int flags) noexcept {
  LIBC(eventfd);
  Network* const network = Network::current();
  return network == nullptr ? libc(first, flags) : network->make_bell();
}
int eventfd_write(int fd, eventfd_t rings) {
  LIBC(eventfd_write);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd, rings) : network->ring(fd);
}
int eventfd_read(int fd, eventfd_t* rings) {
  LIBC(eventfd_read);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd, rings) : network->take_rings(fd, rings);
}

// ---------------------------------------------------------------- sockets

int socket(int domain, int type, int protocol) noexcept {
  LIBC(socket);
  Network* const network = Network::current();
  return network == nullptr || domain != AF_INET ? libc(domain, type, protocol)
                                                 : network->make_socket();
}
int bind(int fd, const sockaddr* to, socklen_t length) noexcept {
  LIBC(bind);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd, to, length) : network->bind(fd, v4_of(to));
}
int listen(int fd, int most) noexcept {
  LIBC(listen);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd, most) : network->listen(fd);
}
int connect(int fd, const sockaddr* to, socklen_t length) {
  LIBC(connect);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd, to, length) : network->connect(fd, v4_of(to));
}
int accept4(int fd, sockaddr* from, socklen_t* length, int flags) {
  LIBC(accept4);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd, from, length, flags) : network->accept(fd);
}
int shutdown(int fd, int how) noexcept {
  LIBC(shutdown);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd, how) : network->shut(fd);
}

int getsockname(int fd, sockaddr* out, socklen_t* length) noexcept {
  LIBC(getsockname);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, out, length);
  sockaddr_in address;
  return network->address(fd, false, &address) != 0 ? -1 : give(address, out, length);
}
int getpeername(int fd, sockaddr* out, socklen_t* length) noexcept {
  LIBC(getpeername);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, out, length);
  sockaddr_in address;
  return network->address(fd, true, &address) != 0 ? -1 : give(address, out, length);
}

int setsockopt(int fd, int level, int name, const void* value, socklen_t length) noexcept {
  LIBC(setsockopt);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, level, name, value, length);
  if (level != IPPROTO_TCP || name != TCP_USER_TIMEOUT) return 0;
  int limit_ms;
  std::memcpy(&limit_ms, value, sizeof(limit_ms));
  return network->set_limit(fd, uint64_t(limit_ms) * 1'000'000u);
}
int getsockopt(int fd, int level, int name, void* value, socklen_t* length) noexcept {
  LIBC(getsockopt);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, level, name, value, length);
  if (level == SOL_SOCKET && name == SO_ERROR)
    return network->take_error(fd, static_cast<int*>(value));
  if (level != IPPROTO_TCP || name != TCP_INFO) return 0;
  tcp_info info{};
  Network::Contact contact;
  if (network->contact(fd, &contact) != 0) return -1;
  info.tcpi_retransmits = uint8_t(std::min(contact.tries, 255u));
  info.tcpi_bytes_acked = contact.acknowledged;
  std::memcpy(value, &info, std::min<size_t>(*length, sizeof(info)));
  return 0;
}
int ioctl(int fd, unsigned long what, ...) noexcept {
  LIBC(ioctl);
  va_list list;
  va_start(list, what);
  void* const argument = va_arg(list, void*);
  va_end(list);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, what, argument);
  if (what != SIOCOUTQ) return 0;
  Network::Contact contact;
  if (network->contact(fd, &contact) != 0) return -1;
  *static_cast<int*>(argument) = int(contact.unacknowledged);
  return 0;
}

ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  LIBC(send);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, data, bytes, flags);
  const iovec part{const_cast<void*>(data), bytes};
  return network->send(fd, &part, 1);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  LIBC(sendmsg);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, message, flags);
  return network->send(fd, message->msg_iov, message->msg_iovlen);
}
ssize_t recv(int fd, void* to, size_t most, int flags) {
  LIBC(recv);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, to, most, flags);
  const iovec part{to, most};
  return network->receive(fd, &part, 1);
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  LIBC(recvmsg);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, message, flags);
  return network->receive(fd, message->msg_iov, message->msg_iovlen);
}

// ---------------------------------------------------------------- waiting

int poll(pollfd* set, nfds_t n, int wait_ms) {
  LIBC(poll);
  Network* const network = Network::current();
  if (network == nullptr) return libc(set, n, wait_ms);
  return network->poll(
      set, n, wait_ms < 0 ? std::numeric_limits<uint64_t>::max() : uint64_t(wait_ms) * 1'000'000u);
}
int ppoll(pollfd* set, nfds_t n, const timespec* wait, const sigset_t* signals) {
  LIBC(ppoll);
  Network* const network = Network::current();
  if (network == nullptr) return libc(set, n, wait, signals);
  const uint64_t ns = wait == nullptr
                          ? std::numeric_limits<uint64_t>::max()
                          : uint64_t(wait->tv_sec) * 1'000'000'000u + uint64_t(wait->tv_nsec);
  return network->poll(set, n, ns);
}
int epoll_create1(int flags) noexcept {
  LIBC(epoll_create1);
  Network* const network = Network::current();
  return network == nullptr ? libc(flags) : network->make_epoll();
}
int epoll_ctl(int fd, int what, int of, epoll_event* event) noexcept {
  LIBC(epoll_ctl);
  Network* const network = network_of(fd);
  return network == nullptr ? libc(fd, what, of, event)
                            : network->epoll_change(fd, what, of, event);
}
int epoll_wait(int fd, epoll_event* out, int most, int wait_ms) {
  LIBC(epoll_wait);
  Network* const network = network_of(fd);
  if (network == nullptr) return libc(fd, out, most, wait_ms);
  return network->epoll_look(fd, out, most);  // the library waits in poll()
}

}  // extern "C"
