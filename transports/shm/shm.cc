// The transport between processes of one host: a memfd that the lowest rank makes and passes to the
// others over a Unix socket without a name in the file system.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/fd.h"
#include "lib/base/mapping.h"
#include "lib/base/process.h"
#include "lib/control/agree.h"
#include "lib/control/descriptors.h"
#include "lib/slots/slot_link.h"
#include "transports/registry.h"

namespace tutti {

namespace {

using slots::Geometry;
using slots::Segment;
using slots::SlotLink;
using slots::SlotLinkParts;

// What a rank sends the others while a link is opened; only the leader of a group has a ticket.
struct Hello {
  int32_t pid;
  Ticket ticket;
};

// At first by pidfds. A pidfd does not say that the process has replaced itself by another program,
// so each rank then locks a byte of the memory file, and the others look at the lock: the kernel
// takes it from a process that dies or calls exec(), and children do not inherit it.
class ProcessWatch final : public slots::DeathWatch {
 public:
  explicit ProcessWatch(std::vector<Fd> pids) : pids_(std::move(pids)), by_lock_(pids_.size()) {}

  bool dead(uint32_t local) override {
    if (by_lock_[local]) return !is_locked(local);
    pollfd entry{pids_[local].get(), POLLIN, 0};
    return entry.fd >= 0 && ::poll(&entry, 1, 0) > 0;  // does not wait: a look
  }

  // From here on no other descriptor of the file may be closed in this process: that would take the
  // lock from it.
  Status lock(Fd memory, uint32_t self) {
    memory_ = std::move(memory);
    process::keep_from_children(memory_);
    struct flock place = place_of(self);
    if (fcntl(memory_.get(), F_SETLK, &place) == 0) return {};
    return system_error("cannot lock shared memory, by which ranks are watched", errno);
  }
  // Once all have locked theirs.
  void watch_locks() {
    for (uint32_t local = 0; local < pids_.size(); ++local) {
      if (!pids_[local] || !is_locked(local)) continue;
      by_lock_[local] = true;
      pids_[local].reset();
    }
  }

 private:
  static struct flock place_of(uint32_t local) {
    struct flock place {};
    place.l_type = F_WRLCK;
    place.l_whence = SEEK_SET;
    place.l_start = off_t(local);
    place.l_len = 1;
    return place;
  }
  bool is_locked(uint32_t local) const {
    struct flock place = place_of(local);
    return fcntl(memory_.get(), F_GETLK, &place) != 0 || place.l_type != F_UNLCK;
  }

  std::vector<Fd> pids_;
  std::vector<bool> by_lock_;
  Fd memory_;
};

Status watch_processes(const std::vector<Hello>& hellos, uint32_t self,
                       std::unique_ptr<ProcessWatch>* out) {
  std::vector<Fd> pids(hellos.size());
  for (uint32_t local = 0; local < hellos.size(); ++local) {
    if (local == self) continue;
    pids[local] = Fd(int(syscall(SYS_pidfd_open, hellos[local].pid, 0)));
    if (!pids[local]) {
      return system_error("cannot watch process " + std::to_string(hellos[local].pid), errno);
    }
  }
  *out = std::make_unique<ProcessWatch>(std::move(pids));
  return {};
}

// Of two ranks in one process neither has a lock against the other.
bool are_processes(std::vector<Hello> hellos) {
  std::sort(hellos.begin(), hellos.end(),
            [](const Hello& a, const Hello& b) { return a.pid < b.pid; });
  return std::adjacent_find(hellos.begin(), hellos.end(), [](const Hello& a, const Hello& b) {
           return a.pid == b.pid;
         }) == hellos.end();
}

Status open_group(const LinkSetup& setup, SlotLinkParts* parts,
                  std::unique_ptr<ProcessWatch>* watch) {
  const Geometry geometry = Geometry::for_ranks(uint32_t(parts->ranks.size()), *setup.tuning);
  const size_t bytes = geometry.total_bytes();
  const bool member = parts->ranks.size() > 1;
  const bool leader = member && parts->self == 0;

  Hello mine{};
  mine.pid = getpid();
  Fd memory;
  Meeting meeting;
  Status made;
  if (leader) {
    made = make_memory(bytes, &memory);
    if (made.ok()) made = Meeting::host(&meeting);
    mine.ticket = meeting.ticket();
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
      return {TUTTI_PEER_FAILED, rank_name(parts->ranks[local]) + " could not set up shared memory",
              parts->ranks[local]};
    }
    std::memcpy(&hellos[local], said.data(), sizeof(Hello));
  }
  TUTTI_TRY(watch_processes(hellos, parts->self, watch));
  std::vector<Fd> shared;
  TUTTI_TRY(leader ? meeting.share(
                         hellos.size(), std::move(memory), setup.deadline_ns,
                         [&](uint32_t local) -> Status {
                           TUTTI_TRY(setup.exchange->look());
                           if (!(*watch)->dead(local)) return {};
                           return {TUTTI_PEER_FAILED,
                                   "a rank of this host died while shared memory was set up"};
                         },
                         &shared)
                   : tutti::share(hellos[0].ticket, hellos.size(), parts->self, {},
                                  setup.deadline_ns, &shared));
  Mapping mapping;
  TUTTI_TRY(map_memory(shared[0], {0, bytes}, &mapping));
  parts->mapping = mapping.owner;
  parts->segment = Segment(mapping.base, geometry);
  if (are_processes(hellos)) TUTTI_TRY((*watch)->lock(std::move(shared[0]), parts->self));
  return slots::touch_home(*parts);
}

Status open_shm(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  SlotLinkParts parts;
  parts.name = "shm";
  parts.comm_nranks = uint32_t(setup.exchange->nranks());
  parts.ranks = slots::group_of(setup, &parts.self);
  std::unique_ptr<ProcessWatch> watch;
  const Status opened = open_group(setup, &parts, &watch);
  TUTTI_TRY(agree(*setup.exchange, opened, setup.deadline_ns));
  if (parts.ranks.size() == 1) return {};
  watch->watch_locks();
  parts.watch = std::move(watch);
  slots::touch_all(parts);
  *out = std::make_unique<SlotLink>(std::move(parts));
  return {};
}

Status usable() {
  const Fd memory(memfd_create("tutti-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return {TUTTI_UNSUPPORTED, std::string("no memory files: ") + strerror(errno)};
  const Fd process(int(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!process) return {TUTTI_UNSUPPORTED, std::string("no pidfd: ") + strerror(errno)};
  return {};
}

}  // namespace

const Transport shm_transport{
    .name = "shm",
    .about = "processes of one host, through shared memory",
    .reach = Transport::Reach::host,
    .open = open_shm,
    .usable = usable,
};

}  // namespace tutti
