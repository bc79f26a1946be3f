// The transport between processes of one host: a memfd that the lowest rank makes and passes to the
// others over a Unix socket without a name in the file system.
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/mapping.h"
#include "lib/base/process.h"
#include "lib/control/agree.h"
#include "lib/control/descriptors.h"
#include "lib/slots/checked_link.h"
#include "transports/registry.h"

namespace tutti {

namespace {

using slots::Geometry;
using slots::Segment;
using slots::SlotLinkParts;

// What a rank sends the others while a link is opened; only the leader of a group has a ticket.
struct Hello {
  int32_t pid;
  Ticket ticket;
};

// Each rank locks a byte of the memory file, and the others look at the lock: the kernel takes it
// from a process that dies or calls exec(), and children do not inherit it. Where two ranks are in
// one process, neither of which has a lock against the other, all watch each other by pidfds, which
// do not tell that a process has replaced itself by another program.
class ProcessWatch final : public slots::DeathWatch {
 public:
  bool dead(uint32_t local) override {
    if (memory_) return !is_locked(local);
    pollfd entry{pids_[local].get(), POLLIN, 0};
    return entry.fd >= 0 && ::poll(&entry, 1, 0) > 0;  // does not wait: a look
  }

  Status open_pids(const std::vector<Hello>& hellos, uint32_t self) {
    pids_.resize(hellos.size());
    for (uint32_t local = 0; local < hellos.size(); ++local) {
      if (local == self) continue;
      pids_[local] = Fd(int(syscall(SYS_pidfd_open, hellos[local].pid, 0)));
      if (pids_[local]) continue;
      return system_error("cannot watch process " + std::to_string(hellos[local].pid) +
                              " (pidfd), as ranks must that share processes",
                          errno);
    }
    return {};
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
  Fd memory_;
};

bool are_processes(std::vector<Hello> hellos) {
  std::sort(hellos.begin(), hellos.end(),
            [](const Hello& a, const Hello& b) { return a.pid < b.pid; });
  return std::adjacent_find(hellos.begin(), hellos.end(), [](const Hello& a, const Hello& b) {
           return a.pid == b.pid;
         }) == hellos.end();
}

// One rank's part in making the memory of its group. Each step is local, or waits only for what all
// ranks have agreed() that they have done.
class Opening {
 public:
  Opening(const LinkSetup& setup, SlotLinkParts* parts)
      : setup_(setup),
        parts_(*parts),
        geometry_(Geometry::for_ranks(uint32_t(parts->ranks.size()), *setup.tuning)),
        member_(parts->ranks.size() > 1),
        leader_(member_ && parts->self == 0),
        watch_(std::make_unique<ProcessWatch>()) {}

  Status open() {
    Exchange& exchange = *setup_.exchange;
    Hello mine{};
    mine.pid = getpid();
    Status done = leader_ ? host() : Status();
    mine.ticket = meeting_.ticket();
    const std::string_view text(reinterpret_cast<const char*>(&mine), sizeof(mine));
    std::vector<std::string> all;
    TUTTI_TRY(agree_on(exchange, done, text, setup_.deadline_ns, &all));
    done = member_ ? come(all) : Status();
    TUTTI_TRY(agree(exchange, done, setup_.deadline_ns));
    done = member_ ? share() : Status();
    return agree(exchange, done, setup_.deadline_ns);
  }

 private:
  Status host() {
    TUTTI_TRY(make_memory(geometry_.total_bytes(), &memory_));
    return Meeting::host(&meeting_);
  }

  Status come(const std::vector<std::string>& all) {
    hellos_.resize(parts_.ranks.size());
    for (size_t local = 0; local < hellos_.size(); ++local) {
      const int rank = parts_.ranks[local];
      if (all[size_t(rank)].size() != sizeof(Hello)) {
        return {TUTTI_CORRUPT, rank_name(rank) + " introduced itself wrongly", rank};
      }
      std::memcpy(&hellos_[local], all[size_t(rank)].data(), sizeof(Hello));
    }
    if (!are_processes(hellos_)) TUTTI_TRY(watch_->open_pids(hellos_, parts_.self));
    return leader_ ? Status() : Visit::come(hellos_[0].ticket, parts_.self, {}, &visit_);
  }

  Status share() {
    std::vector<Fd> shared;
    const Status passed = leader_ ? meeting_.share(hellos_.size(), std::move(memory_), &shared)
                                  : visit_.receive(hellos_.size(), setup_.deadline_ns, &shared);
    if (!passed.ok() && passed.rank() >= 0) {  // by local index
      return {passed.code(), passed.text(), parts_.ranks[size_t(passed.rank())]};
    }
    TUTTI_TRY(passed);
    Mapping mapping;
    TUTTI_TRY(map_memory(shared[0], {0, geometry_.total_bytes()}, &mapping));
    parts_.mapping = mapping.owner;
    parts_.segment = Segment(mapping.base, geometry_);
    if (are_processes(hellos_)) TUTTI_TRY(watch_->lock(std::move(shared[0]), parts_.self));
    parts_.watch = std::move(watch_);
    return {};
  }

  const LinkSetup& setup_;
  SlotLinkParts& parts_;
  Geometry geometry_;
  bool member_, leader_;
  std::unique_ptr<ProcessWatch> watch_;
  Fd memory_;
  Meeting meeting_;
  Visit visit_;
  std::vector<Hello> hellos_;  // by local index
};

Status open_shm(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  SlotLinkParts parts;
  parts.name = "shm";
  parts.comm_nranks = uint32_t(setup.exchange->nranks());
  parts.write_prefetch_bytes = setup.tuning->write_prefetch_taking_bytes;
  parts.ranks = slots::group_of(setup, &parts.self);
  TUTTI_TRY(Opening(setup, &parts).open());
  if (parts.ranks.size() == 1) return {};
  *out = slots::make_link(std::move(parts), setup.integrity);
  return {};
}

// What a host does is tried: memory, and a socket to pass it over.
Status usable() {
  constexpr size_t bytes = 1;
  Fd memory;
  Mapping mapping;
  Meeting meeting;
  Status able = make_memory("tutti-info", bytes, &memory);
  if (able.ok()) able = map_memory(memory, {0, bytes}, &mapping);
  if (able.ok()) able = Meeting::host(&meeting);
  return able.ok() ? Status() : Status{TUTTI_UNSUPPORTED, able.text()};
}

// A sandbox may refuse what it takes; then ranks reach each other in other ways.
bool worthwhile() {
  const Status able = usable();
  if (!able.ok() && logging()) log(TUTTI_LOG_WARNING, "no ranks by shared memory: " + able.text());
  return able.ok();
}

}  // namespace

const Transport shm_transport{
    .name = "shm",
    .about = "processes of one host, through shared memory",
    .reach = Transport::Reach::host,
    .open = open_shm,
    .usable = usable,
    .worthwhile = worthwhile,
};

}  // namespace tutti
