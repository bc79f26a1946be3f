#include "transports/shm/shm.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "lib/clock.h"
#include "lib/control/agree.h"
#include "lib/fd.h"
#include "transports/shm/mapping.h"
#include "transports/shm/slot_link.h"

namespace tutti {

namespace {

using shm::Geometry;
using shm::Mapping;
using shm::Segment;
using shm::SlotLink;
using shm::SlotLinkParts;

// What a rank says about itself while a link is opened. `token` names the leader's socket and
// proves that who connects took part in the exchange; only the leader of a group has one.
struct Hello {
  int32_t pid;
  uint8_t token[24];
};

class PidWatch final : public shm::Watch {
 public:
  explicit PidWatch(std::vector<Fd> pids) : pids_(std::move(pids)) {}
  bool dead(uint32_t local) override {
    pollfd entry{pids_[local].get(), POLLIN, 0};
    return entry.fd >= 0 && ::poll(&entry, 1, 0) > 0;  // does not wait: a look
  }

 private:
  std::vector<Fd> pids_;
};

sockaddr_un abstract_address(const uint8_t (&token)[24], socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static constexpr char digits[] = "0123456789abcdef";
  char* at = address.sun_path + 1;  // the leading zero makes it abstract
  std::memcpy(at, "tutti-", 6);
  at += 6;
  for (int i = 0; i < 8; ++i) {  // the rest of the token stays secret
    *at++ = digits[token[i] >> 4];
    *at++ = digits[token[i] & 15];
  }
  *length = socklen_t(at - reinterpret_cast<char*>(&address));
  return address;
}

Status listen_for_members(const Hello& hello, Fd* out) {
  Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return system_error("cannot make a Unix socket", errno);
  socklen_t length = 0;
  const sockaddr_un address = abstract_address(hello.token, &length);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener.get(), 256) != 0) {
    return system_error("cannot listen on a Unix socket", errno);
  }
  *out = std::move(listener);
  return {};
}

// One of the few places that sleep in the kernel: while a communicator is made, until its deadline.
Status wait_readable(int fd, uint64_t deadline_ns, const char* what) {
  for (;;) {
    const uint64_t now = now_ns();
    if (now >= deadline_ns) {
      return {TUTTI_TIMEOUT, std::string("setting up shared memory timed out waiting for ") + what};
    }
    pollfd entry{fd, POLLIN, 0};
    const int found = ::poll(&entry, 1, int((deadline_ns - now) / 1'000'000u) + 1);
    if (found > 0) return {};
    if (found < 0 && errno != EINTR) return system_error("cannot wait on a socket", errno);
  }
}

Status send_fd(int socket, int fd) {
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) {
    return system_error("cannot pass shared memory to a rank", errno);
  }
  return {};
}

Status receive_fd(int socket, Fd* out) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return system_error("cannot receive shared memory", errno);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (got != 1 || header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return {TUTTI_PEER_FAILED, "the rank that makes the shared memory has gone"};
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  *out = Fd(fd);
  return {};
}

// The leader's side: everybody who comes with the token and the same user gets the memory.
Status hand_out(const Fd& listener, const Fd& memory, const Hello& hello, size_t members,
                uint64_t deadline_ns) {
  for (size_t served = 0; served < members;) {
    TUTTI_TRY(wait_readable(listener.get(), deadline_ns, "other ranks of this host"));
    Fd member(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!member) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      return system_error("cannot accept a rank of this host", errno);
    }
    ucred who{};
    socklen_t length = sizeof(who);
    if (getsockopt(member.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 ||
        who.uid != geteuid()) {
      continue;
    }
    uint8_t token[sizeof(hello.token)];
    const uint64_t patience = std::min(deadline_ns, now_ns() + 1'000'000'000u);
    if (!wait_readable(member.get(), patience, "a rank's token").ok()) continue;
    if (recv(member.get(), token, sizeof(token), 0) != ssize_t(sizeof(token)) ||
        std::memcmp(token, hello.token, sizeof(token)) != 0) {
      continue;
    }
    TUTTI_TRY(send_fd(member.get(), memory.get()));
    ++served;
  }
  return {};
}

Status fetch(const Hello& leader, uint64_t deadline_ns, Fd* out) {
  Fd to(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!to) return system_error("cannot make a Unix socket", errno);
  socklen_t length = 0;
  const sockaddr_un address = abstract_address(leader.token, &length);
  if (connect(to.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return system_error("cannot reach the rank that makes the shared memory", errno);
  }
  if (send(to.get(), leader.token, sizeof(leader.token), MSG_NOSIGNAL) < 0) {
    return system_error("cannot ask for shared memory", errno);
  }
  TUTTI_TRY(wait_readable(to.get(), deadline_ns, "the rank that makes the shared memory"));
  return receive_fd(to.get(), out);
}

Status watch_processes(const std::vector<Hello>& hellos, uint32_t self,
                       std::unique_ptr<shm::Watch>* out) {
  std::vector<Fd> pids(hellos.size());
  for (uint32_t local = 0; local < hellos.size(); ++local) {
    if (local == self) continue;
    pids[local] = Fd(int(syscall(SYS_pidfd_open, hellos[local].pid, 0)));
    if (!pids[local]) {
      return system_error("cannot watch process " + std::to_string(hellos[local].pid), errno);
    }
  }
  *out = std::make_unique<PidWatch>(std::move(pids));
  return {};
}

Status open_group(const LinkSetup& setup, SlotLinkParts* parts) {
  const Geometry geometry = Geometry::for_ranks(uint32_t(parts->ranks.size()));
  const size_t bytes = geometry.total_bytes();
  const bool member = parts->ranks.size() > 1;
  const bool leader = member && parts->self == 0;

  Hello mine{};
  mine.pid = getpid();
  Fd memory, listener;
  Status made;
  if (leader) {
    if (getrandom(mine.token, sizeof(mine.token), 0) != ssize_t(sizeof(mine.token))) {
      return system_error("cannot read random bytes", errno);
    }
    made = shm::make_memory(bytes, &memory);
    if (made.ok()) made = listen_for_members(mine, &listener);
  }
  std::vector<std::string> all;
  const std::string_view text(reinterpret_cast<const char*>(&mine), sizeof(mine));
  TUTTI_TRY(
      setup.exchange->allgather(made.ok() ? text : std::string_view(), setup.deadline_ns, &all));
  TUTTI_TRY(made);
  if (!member) return {};

  std::vector<Hello> hellos(parts->ranks.size());
  for (size_t local = 0; local < hellos.size(); ++local) {
    const std::string& said = all[parts->ranks[local]];
    if (said.size() != sizeof(Hello)) {
      return {TUTTI_PEER_FAILED,
              "rank " + std::to_string(parts->ranks[local]) + " could not set up shared memory",
              parts->ranks[local]};
    }
    std::memcpy(&hellos[local], said.data(), sizeof(Hello));
  }
  if (leader) {
    TUTTI_TRY(hand_out(listener, memory, mine, hellos.size() - 1, setup.deadline_ns));
  } else {
    TUTTI_TRY(fetch(hellos[0], setup.deadline_ns, &memory));
  }
  Mapping mapping;
  TUTTI_TRY(shm::map_memory(memory, bytes, &mapping));
  parts->mapping = mapping.owner;
  parts->segment = Segment(mapping.base, geometry);
  return watch_processes(hellos, parts->self, &parts->watch);
}

}  // namespace

Status open_shm(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  SlotLinkParts parts;
  parts.name = "shm";
  parts.comm_nranks = uint32_t(setup.exchange->nranks());
  parts.ranks = shm::group_of(setup, &parts.self);
  const Status opened = open_group(setup, &parts);
  TUTTI_TRY(agree(*setup.exchange, opened, setup.deadline_ns));
  if (parts.ranks.size() > 1) *out = std::make_unique<SlotLink>(std::move(parts));
  return {};
}

}  // namespace tutti
