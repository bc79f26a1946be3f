// The transport between processes of one host: a memfd that the lowest rank makes and passes to the
// others over a Unix socket without a name in the file system.
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/fd.h"
#include "lib/base/mapping.h"
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

class PidWatch final : public slots::DeathWatch {
 public:
  explicit PidWatch(std::vector<Fd> pids) : pids_(std::move(pids)) {}
  bool dead(uint32_t local) override {
    pollfd entry{pids_[local].get(), POLLIN, 0};
    return entry.fd >= 0 && ::poll(&entry, 1, 0) > 0;  // does not wait: a look
  }

 private:
  std::vector<Fd> pids_;
};

Status watch_processes(const std::vector<Hello>& hellos, uint32_t self,
                       std::unique_ptr<slots::DeathWatch>* out) {
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
  TUTTI_TRY(watch_processes(hellos, parts->self, &parts->watch));
  std::vector<Fd> shared;
  TUTTI_TRY(leader ? meeting.share(
                         hellos.size(), std::move(memory), setup.deadline_ns,
                         [&](uint32_t local) -> Status {
                           TUTTI_TRY(setup.exchange->look());
                           if (!parts->watch->dead(local)) return {};
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
  return slots::touch_home(*parts);
}

Status open_shm(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  SlotLinkParts parts;
  parts.name = "shm";
  parts.comm_nranks = uint32_t(setup.exchange->nranks());
  parts.ranks = slots::group_of(setup, &parts.self);
  const Status opened = open_group(setup, &parts);
  TUTTI_TRY(agree(*setup.exchange, opened, setup.deadline_ns));
  if (parts.ranks.size() == 1) return {};
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
