// The transport between threads of one process: the rings of lib/slots in plain memory.
#include <map>
#include <mutex>

#include "lib/base/mapping.h"
#include "lib/control/agree.h"
#include "lib/slots/checked_link.h"
#include "transports/registry.h"

namespace tutti {

namespace {

// Segments that threads are about to pick up, by communicator and the group's lowest rank.
struct Lobby {
  std::mutex mutex;
  std::map<std::pair<uint64_t, int>, Mapping> mappings;
};
Lobby& lobby() {
  static Lobby* const instance = new Lobby;  // outlives every thread
  return *instance;
}

Status open_inproc(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  slots::SlotLinkParts parts;
  parts.name = "inproc";
  parts.comm_nranks = uint32_t(setup.exchange->nranks());
  parts.write_prefetch_bytes = setup.tuning->write_prefetch_taking_bytes;
  parts.ranks = slots::group_of(setup, &parts.self);
  const auto geometry = slots::Geometry::for_ranks(uint32_t(parts.ranks.size()), *setup.tuning);
  const std::pair<uint64_t, int> key{setup.comm_id, parts.ranks.front()};
  const bool member = parts.ranks.size() > 1;
  const bool leader = member && parts.self == 0;

  Status made;
  Mapping mapping;
  if (leader) {
    Fd memory;
    made = make_memory(geometry.total_bytes(), &memory);
    if (made.ok()) made = map_memory(memory, {0, geometry.total_bytes()}, &mapping);
    if (made.ok()) {
      const std::lock_guard lock(lobby().mutex);
      lobby().mappings[key] = mapping;
    }
  }
  TUTTI_TRY(agree(*setup.exchange, made, setup.deadline_ns));
  if (member && !leader) {
    const std::lock_guard lock(lobby().mutex);
    mapping = lobby().mappings[key];
  }
  const Status picked_up = agree(*setup.exchange, {}, setup.deadline_ns);
  if (leader) {
    const std::lock_guard lock(lobby().mutex);
    lobby().mappings.erase(key);
  }
  TUTTI_TRY(picked_up);
  if (!member) return {};
  parts.mapping = mapping.owner;
  parts.segment = slots::Segment(mapping.base, geometry);
  *out = slots::make_link(std::move(parts), setup.integrity);
  return {};
}

}  // namespace

const Transport inproc_transport{
    .name = "inproc",
    .about = "threads of one process",
    .reach = Transport::Reach::process,
    .open = open_inproc,
};

}  // namespace tutti
