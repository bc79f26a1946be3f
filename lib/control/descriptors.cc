#include "lib/control/descriptors.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "lib/base/clock.h"

namespace tutti {

namespace {

constexpr size_t name_bytes = 8;
constexpr size_t most_a_message = 64;  // descriptors; the kernel's limit is 253

// A member's first message; its descriptor, if it gives one, travels with it.
struct Entry {
  Ticket ticket;
  uint32_t self = 0;
};

// A message of the host's answer: which local indices the descriptors sent with it belong to.
struct Hand {
  uint32_t count = 0;
  uint32_t last = 0;  // 1: no more messages follow
  uint32_t owners[most_a_message] = {};
};

sockaddr_un abstract_address(const Ticket& ticket, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static constexpr char digits[] = "0123456789abcdef";
  char* at = address.sun_path + 1;  // the leading zero: in the abstract namespace
  std::memcpy(at, "tutti-", 6);
  at += 6;
  for (size_t i = 0; i < name_bytes; ++i) {
    *at++ = digits[ticket.bytes[i] >> 4];
    *at++ = digits[ticket.bytes[i] & 15];
  }
  *length = socklen_t(at - reinterpret_cast<char*>(&address));
  return address;
}

// One of the few places that sleep in the kernel: while memory is set up, until its deadline.
Status wait_readable(int fd, uint64_t until_ns, bool* readable) {
  for (*readable = false;;) {
    const uint64_t now = now_ns();
    if (now >= until_ns) return {};
    pollfd entry{fd, POLLIN, 0};
    const int found = ::poll(&entry, 1, int((until_ns - now) / 1'000'000u) + 1);
    if (found > 0) {
      *readable = true;
      return {};
    }
    if (found < 0 && errno != EINTR) return system_error("cannot wait on a socket", errno);
  }
}

Status send_message(int socket, const void* data, size_t bytes, const std::vector<int>& fds) {
  iovec part{const_cast<void*>(data), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * most_a_message)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  // One that has gone is missed where the ranks agree.
  if (sent >= 0 || errno == EPIPE || errno == ECONNRESET) return {};
  return system_error("cannot pass shared memory to a rank", errno);
}

// *complete: a whole message of `bytes` came. An error: it could not be received here.
Status receive_message(int socket, void* data, size_t bytes, std::vector<Fd>* fds, bool* complete) {
  iovec part{data, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * most_a_message)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  fds->clear();
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  *complete = got == ssize_t(bytes);
  if (got < 0 && (errno == EAGAIN || errno == ECONNRESET)) return {};
  if (got < 0) return system_error("cannot receive shared memory", errno);
  for (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(header))) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds->push_back(Fd(fd));
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return {TUTTI_SYSTEM, "no file descriptor is left to receive shared memory with"};
  }
  return {};
}

Status find_user(const Fd& socket, uid_t* user) {
  ucred who{};
  socklen_t length = sizeof(who);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) {
    return system_error("cannot find out whose process asks for shared memory", errno);
  }
  *user = who.uid;
  return {};
}

// One that came to the meeting, and what it said; a stranger may say anything.
struct Arrival {
  Fd socket;
  Entry entry;
  std::vector<Fd> given;
};

// The next of those who wait; without a socket: nobody is left. A member has said all before.
Status accept_next(const Fd& listener, Arrival* out) {
  for (;;) {
    Fd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN) return {};
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return system_error("cannot accept a rank of this host", errno);
    }
    uid_t user = 0;
    TUTTI_TRY(find_user(socket, &user));
    if (user != geteuid()) continue;
    bool complete = false;
    TUTTI_TRY(
        receive_message(socket.get(), &out->entry, sizeof(out->entry), &out->given, &complete));
    if (!complete) continue;
    out->socket = std::move(socket);
    return {};
  }
}

}  // namespace

Status Meeting::host(Meeting* out) {
  if (getrandom(&out->ticket_, sizeof(Ticket), 0) != ssize_t(sizeof(Ticket))) {
    return system_error("cannot read random bytes", errno);
  }
  Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return system_error("cannot make a Unix socket", errno);
  socklen_t length = 0;
  const sockaddr_un address = abstract_address(out->ticket_, &length);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return system_error("cannot listen on a Unix socket", errno);
  }
  out->listener_ = std::move(listener);
  return {};
}

Status Meeting::share(size_t members, Fd own, std::vector<Fd>* out) {
  const Fd listener = std::move(listener_);  // closed at the end, with all connections
  std::vector<Fd> callers(members);
  out->clear();
  out->resize(members);
  (*out)[0] = std::move(own);
  for (size_t missing = members - 1; missing > 0;) {
    Arrival arrival;
    TUTTI_TRY(accept_next(listener, &arrival));
    if (!arrival.socket) {
      int gone = 1;
      while (callers[size_t(gone)]) ++gone;
      return {TUTTI_PEER_FAILED, "a rank of this host has gone while shared memory was set up",
              gone};
    }
    const uint32_t index = arrival.entry.self;
    const bool invited = std::memcmp(&arrival.entry.ticket, &ticket_, sizeof(Ticket)) == 0 &&
                         index > 0 && index < members && !callers[index];
    if (!invited) continue;
    if (!arrival.given.empty()) (*out)[index] = std::move(arrival.given.front());
    callers[index] = std::move(arrival.socket);
    --missing;
  }
  std::vector<uint32_t> givers;
  for (uint32_t local = 0; local < members; ++local) {
    if ((*out)[local]) givers.push_back(local);
  }
  for (uint32_t member = 1; member < members; ++member) {
    size_t at = 0;
    do {
      Hand hand;
      std::vector<int> fds;
      for (; at < givers.size() && fds.size() < most_a_message; ++at) {
        hand.owners[hand.count++] = givers[at];
        fds.push_back((*out)[givers[at]].get());
      }
      hand.last = at == givers.size() ? 1 : 0;
      TUTTI_TRY(send_message(callers[member].get(), &hand, sizeof(hand), fds));
    } while (at < givers.size());
  }
  return {};
}

Status Visit::come(const Ticket& ticket, uint32_t self, const Fd& own, Visit* out) {
  Fd host(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!host) return system_error("cannot make a Unix socket", errno);
  socklen_t length = 0;
  const sockaddr_un address = abstract_address(ticket, &length);
  if (connect(host.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const std::string what = "cannot reach the rank that hands out shared memory";
    if (errno != EAGAIN) return system_error(what, errno);
    return {TUTTI_SYSTEM, what + ": too many wait there already (net.core.somaxconn)"};
  }
  const Entry entry{ticket, self};
  TUTTI_TRY(send_message(host.get(), &entry, sizeof(entry),
                         own ? std::vector<int>{own.get()} : std::vector<int>{}));
  out->host_ = std::move(host);
  return {};
}

Status Visit::receive(size_t members, uint64_t deadline_ns, std::vector<Fd>* out) {
  out->clear();
  out->resize(members);
  for (Hand hand; hand.last == 0;) {
    bool readable = false, complete = false;
    TUTTI_TRY(wait_readable(host_.get(), deadline_ns, &readable));
    if (!readable) {
      return {TUTTI_TIMEOUT,
              "setting up shared memory timed out waiting for the rank that hands it out"};
    }
    std::vector<Fd> fds;
    TUTTI_TRY(receive_message(host_.get(), &hand, sizeof(hand), &fds, &complete));
    if (!complete || hand.count > most_a_message || fds.size() != hand.count) {
      return {TUTTI_PEER_FAILED, "the rank that hands out shared memory has gone", 0};
    }
    for (uint32_t i = 0; i < hand.count; ++i) {
      if (hand.owners[i] >= members) {
        return {TUTTI_CORRUPT, "the rank that hands out shared memory names a rank that is not"};
      }
      (*out)[hand.owners[i]] = std::move(fds[i]);
    }
  }
  return {};
}

}  // namespace tutti
