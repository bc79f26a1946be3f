#include "lib/shared_memory/regions.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/cache.h"
#include "lib/base/maps.h"
#include "lib/control/agree.h"
#include "lib/control/descriptors.h"
#include "lib/slots/access.h"

namespace tutti::shared {

namespace {

// What a rank says about its part.
struct Offer {
  uint64_t bytes = 0;
  uint64_t offset = 0;  // of the first byte behind its edge in the memory that it hands out
  Edges edges;
  Ticket ticket;  // of rank 0
};

// Whether [address, address + bytes) really is the memory behind `fd` from `offset` on, shared.
Status check_mapping(const std::byte* address, size_t bytes, int fd, uint64_t offset) {
  struct stat memory {};
  if (fstat(fd, &memory) != 0) {
    return {TUTTI_INVALID, "descriptor " + std::to_string(fd) + " of the memory is not open"};
  }
  auto at = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = at + bytes;
  std::vector<MapsEntry> entries;
  TUTTI_TRY(read_maps(at, end, false, &entries));
  for (const MapsEntry& entry : entries) {
    if (at < entry.begin) break;
    const bool same = entry.inode == memory.st_ino && entry.device == memory.st_dev &&
                      entry.offset + (at - entry.begin) == offset;
    if (!entry.can_read_and_write() || !entry.is_shared() || !same) break;
    offset += entry.end - at;
    at = entry.end;
  }
  if (at >= end) return {};
  return {TUTTI_INVALID,
          "the memory is not a shared mapping, to be read and written, of its descriptor"};
}

// Of memory that begins at `at`, when it does so earlier by `bytes`.
std::byte* before(std::byte* at, size_t bytes) {
  return reinterpret_cast<std::byte*>(  // NOLINT(performance-no-int-to-ptr)
      reinterpret_cast<uintptr_t>(at) - bytes);
}

}  // namespace

Status freed_here(uint32_t rank, uint32_t self) {
  return {TUTTI_MISMATCH,
          rank_name(int(rank)) + " passed symmetric memory that rank " + std::to_string(self) +
              " has freed",
          int(rank)};
}

Status Regions::allocate(Exchange& exchange, size_t bytes, uint64_t deadline_ns, std::byte** out) {
  Part own;
  own.bytes = bytes;
  Fd memory;
  Status made;
  if (reach_ == Reach::host) {
    made = make_memory(bytes, &memory);
    if (made.ok()) made = map_memory(memory, {0, bytes}, &own.mapping);
    if (made.ok()) made = touch(own.mapping.base, bytes);
  } else {
    made = map_private(bytes, &own.mapping);
  }
  std::byte* const base = own.mapping.base;
  std::vector<Part> parts;
  TUTTI_TRY(share(exchange, made, std::move(memory), 0, deadline_ns, std::move(own), &parts));
  add(std::move(parts), own_index(exchange));
  *out = base;
  return {};
}

Status Regions::enlist(Exchange& exchange, std::byte* address, size_t bytes, int fd,
                       uint64_t offset, uint64_t deadline_ns) {
  Fd memory(dup(fd));
  Status fits = check_mapping(address, bytes, fd, offset);
  if (fits.ok() && !memory) fits = system_error("cannot keep the memory's descriptor", errno);
  Part own;
  own.mapping.base = address;
  own.bytes = bytes;
  std::vector<Part> parts;
  TUTTI_TRY(share(exchange, fits, std::move(memory), offset, deadline_ns, std::move(own), &parts));
  add(std::move(parts), own_index(exchange));
  return {};
}

Status Regions::adopt(Exchange& exchange, std::byte* address, size_t bytes, Adopted::End end,
                      uint64_t deadline_ns) {
  Part own;
  own.mapping.base = address;
  own.bytes = bytes;
  Fd memory;
  Status ready;
  if (reach_ == Reach::host) {
    ready = Adopted::adopt(address, bytes, end, &own.adopted);
    if (ready.ok()) {
      own.edges.head = size_t(own.adopted->begin() - address);
      own.edges.tail = bytes - own.edges.head - own.adopted->bytes();
      memory = Fd(dup(own.adopted->memory().get()));
      if (!memory) ready = system_error("cannot keep the memory's descriptor", errno);
    }
  }
  std::vector<Part> parts;
  TUTTI_TRY(share(exchange, ready, std::move(memory), 0, deadline_ns, std::move(own), &parts));
  Edges longest;
  for (const Part& part : parts) {
    longest.head = std::max(longest.head, part.edges.head);
    longest.tail = std::max(longest.tail, part.edges.tail);
  }
  if (longest.head + longest.tail != 0 && edge_copies_.empty()) {
    Part room;
    room.bytes = 2 * most_edge_bytes();
    Status made = make_memory(room.bytes, &memory);
    if (made.ok()) made = map_memory(memory, {0, room.bytes}, &room.mapping);
    TUTTI_TRY(
        share(exchange, made, std::move(memory), 0, deadline_ns, std::move(room), &edge_copies_));
  }
  edges_.head = std::max(edges_.head, longest.head);
  edges_.tail = std::max(edges_.tail, longest.tail);
  add(std::move(parts), own_index(exchange));
  return {};
}

Edges Regions::edges_of(size_t element_size) const {
  const size_t unit = line_bytes % element_size == 0 ? line_bytes : element_size;
  return {(edges_.head + unit - 1) / unit * unit,
          (edges_.tail + element_size - 1) / element_size * element_size};
}

void Regions::copy_edges(uint32_t self, const Edges& edges, const std::byte* vector,
                         uint64_t bytes) const {
  const auto copy = [](std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes == 0) return;
    slots::will_write(to, bytes);
    std::memcpy(to, from, bytes);
  };
  if (edge_copies_.empty()) return;
  copy(head_copy(self), vector, edges.head);
  copy(tail_copy(self), vector + bytes - edges.tail, edges.tail);
}

size_t Regions::most_edge_bytes() { return size_t(sysconf(_SC_PAGESIZE)) + TUTTI_DTYPE_MOST_BYTES; }

size_t Regions::own_index(const Exchange& exchange) const {
  return reach_ == Reach::host ? size_t(exchange.rank()) : 0;
}

// Makes the parts of all ranks from the own one. `ready`: whether this rank has one. `memory`: what
// the others shall map, from `offset` on.
Status Regions::share(Exchange& exchange, const Status& ready, Fd memory, uint64_t offset,
                      uint64_t deadline_ns, Part own, std::vector<Part>* out) {
  if (reach_ != Reach::host) {
    TUTTI_TRY(agree(exchange, ready, deadline_ns));
    out->clear();
    out->push_back(std::move(own));
    return {};
  }
  const auto self = uint32_t(exchange.rank());
  Offer mine{own.bytes, offset, own.edges, {}};
  Meeting meeting;
  Status hosted = ready;
  if (self == 0 && hosted.ok()) {
    hosted = Meeting::host(&meeting);
    mine.ticket = meeting.ticket();
  }
  std::vector<std::string> all;
  TUTTI_TRY(agree_on(exchange, hosted, {reinterpret_cast<const char*>(&mine), sizeof(mine)},
                     deadline_ns, &all));
  std::vector<Offer> offers(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size() != sizeof(Offer)) {
      return {TUTTI_CORRUPT, rank_name(rank) + " offered its memory wrongly", int(rank)};
    }
    std::memcpy(&offers[rank], all[rank].data(), sizeof(Offer));
  }
  Visit visit;
  const Status came = self == 0 ? Status() : Visit::come(offers[0].ticket, self, memory, &visit);
  TUTTI_TRY(agree(exchange, came, deadline_ns));
  std::vector<Fd> memories;
  Status shared = self == 0 ? meeting.share(all.size(), std::move(memory), &memories)
                            : visit.receive(all.size(), deadline_ns, &memories);
  std::vector<Part> parts(all.size());
  parts[self] = std::move(own);
  for (uint32_t rank = 0; shared.ok() && rank < all.size(); ++rank) {
    if (rank == self) continue;
    const Offer& offer = offers[rank];
    Part& part = parts[rank];
    part.bytes = offer.bytes;
    part.edges = offer.edges;
    const size_t within = offer.bytes - offer.edges.head - offer.edges.tail;
    shared = map_memory(memories[rank], {offer.offset, within}, &part.mapping);
    if (shared.ok()) shared = touch(part.mapping.base, within);
    part.mapping.base = before(part.mapping.base, offer.edges.head);
  }
  TUTTI_TRY(agree(exchange, shared, deadline_ns));
  *out = std::move(parts);
  return {};
}

void Regions::add(std::vector<Part> parts, size_t own) {
  regions_.push_back({++registrations_, std::move(parts), own});
}

bool Regions::remove(const void* address) {
  return std::erase_if(regions_, [address](const Region& region) {
           return region.parts[region.own].mapping.base == address;
         }) != 0;
}

void Regions::remove(uint64_t id, Adopted::End end) {
  std::erase_if(regions_, [&](Region& region) {
    if (region.id != id) return false;
    Part& own = region.parts[region.own];
    if (own.adopted != nullptr) own.adopted->end_with(end);
    return true;
  });
}

bool Regions::find_region(const void* address, size_t bytes, bool left, Place* out) const {
  if (reach_ == Reach::none) return false;
  const auto* at = static_cast<const std::byte*>(address);
  for (const Region& region : regions_) {
    const Part& own = region.parts[region.own];
    // Compared as numbers: the address may belong to anything.
    const uint64_t offset =
        reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(own.mapping.base);
    if (offset > own.bytes || bytes > own.bytes - offset) continue;
    if (!left && own.adopted != nullptr && own.adopted->is_left_at_end()) continue;
    // Memory may have been freed since, and be of another region now, or of none.
    if (own.adopted != nullptr && !own.adopted->holds(at, bytes)) continue;
    *out = {region.id, offset};
    return true;
  }
  return false;
}

std::byte* Regions::at(uint32_t rank, const Place& place, size_t bytes,
                       std::shared_ptr<void>* owner) const {
  if (reach_ == Reach::process) return reinterpret_cast<std::byte*>(place.offset);
  for (const Region& region : regions_) {
    if (region.id != place.region) continue;
    const Part& part = region.parts[rank];
    if (place.offset > part.bytes || bytes > part.bytes - place.offset) return nullptr;
    *owner = part.mapping.owner;
    return part.mapping.base + place.offset;
  }
  return nullptr;
}

}  // namespace tutti::shared
