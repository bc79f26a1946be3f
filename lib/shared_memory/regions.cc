#include "lib/shared_memory/regions.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "lib/control/agree.h"
#include "lib/control/descriptors.h"
#include "lib/slots/slot_link.h"

namespace tutti::shared {

namespace {

// What a rank says about its part.
struct Offer {
  uint64_t bytes = 0;
  uint64_t offset = 0;
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
  std::ifstream maps("/proc/self/maps");
  for (std::string line; at < end && std::getline(maps, line);) {
    uintptr_t low = 0, high = 0;
    uint64_t from = 0, inode = 0;
    unsigned major = 0, minor = 0;
    char mode[8] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %7s %" SCNx64 " %x:%x %" SCNu64, &low,
                    &high, mode, &from, &major, &minor, &inode) != 7) {
      continue;
    }
    if (at < low || at >= high) continue;
    const bool same = inode == memory.st_ino && makedev(major, minor) == memory.st_dev &&
                      from + (at - low) == offset;
    if (mode[0] != 'r' || mode[1] != 'w' || mode[3] != 's' || !same) break;
    offset += high - at;
    at = high;
  }
  if (at >= end) return {};
  return {TUTTI_INVALID,
          "the memory is not a shared mapping, to be read and written, of its descriptor"};
}

}  // namespace

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
  TUTTI_TRY(share(exchange, made, std::move(memory), 0, deadline_ns, std::move(own)));
  *out = base;
  return {};
}

Status Regions::adopt(Exchange& exchange, std::byte* address, size_t bytes, int fd, uint64_t offset,
                      uint64_t deadline_ns) {
  Fd memory(dup(fd));
  Status fits = check_mapping(address, bytes, fd, offset);
  if (fits.ok() && !memory) fits = system_error("cannot keep the memory's descriptor", errno);
  return share(exchange, fits, std::move(memory), offset, deadline_ns, {{nullptr, address}, bytes});
}

// Makes a region of all ranks' parts from the own part. `ready`: whether this rank has one.
Status Regions::share(Exchange& exchange, const Status& ready, Fd memory, uint64_t offset,
                      uint64_t deadline_ns, Part own) {
  std::vector<Part> parts;
  if (reach_ != Reach::host) {
    TUTTI_TRY(agree(exchange, ready, deadline_ns));
    parts.push_back(std::move(own));
    add(std::move(parts), 0);
    return {};
  }
  const auto self = uint32_t(exchange.rank());
  Offer mine{own.bytes, offset, {}};
  Meeting meeting;
  Status hosted = ready;
  if (self == 0 && hosted.ok()) {
    hosted = Meeting::host(&meeting);
    mine.ticket = meeting.ticket();
  }
  TUTTI_TRY(agree(exchange, hosted, deadline_ns));
  std::vector<std::string> all;
  TUTTI_TRY(
      exchange.allgather({reinterpret_cast<const char*>(&mine), sizeof(mine)}, deadline_ns, &all));
  std::vector<Offer> offers(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size() != sizeof(Offer)) {
      return {TUTTI_CORRUPT, rank_name(rank) + " offered its memory wrongly", int(rank)};
    }
    std::memcpy(&offers[rank], all[rank].data(), sizeof(Offer));
  }
  std::vector<Fd> memories;
  Status shared =
      self == 0 ? meeting.share(
                      all.size(), std::move(memory), deadline_ns,
                      [&](uint32_t local) -> Status {
                        TUTTI_TRY(exchange.look());
                        if (!link_->dead(local)) return {};
                        return {TUTTI_PEER_FAILED,
                                "a rank of this host died while shared memory was set up"};
                      },
                      &memories)
                : tutti::share(offers[0].ticket, all.size(), self, memory, deadline_ns, &memories);
  parts.resize(all.size());
  parts[self] = std::move(own);
  for (uint32_t rank = 0; shared.ok() && rank < all.size(); ++rank) {
    if (rank == self) continue;
    Part& part = parts[rank];
    part.bytes = offers[rank].bytes;
    shared = map_memory(memories[rank], {offers[rank].offset, part.bytes}, &part.mapping);
    if (shared.ok()) shared = touch(part.mapping.base, part.bytes);
  }
  TUTTI_TRY(agree(exchange, shared, deadline_ns));
  add(std::move(parts), self);
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

bool Regions::find_region(const void* address, size_t bytes, Place* out) const {
  if (reach_ == Reach::none) return false;
  const auto* at = static_cast<const std::byte*>(address);
  for (const Region& region : regions_) {
    const Part& own = region.parts[region.own];
    // Compared as numbers: the address may belong to anything.
    const uint64_t offset =
        reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(own.mapping.base);
    if (offset <= own.bytes && bytes <= own.bytes - offset) {
      *out = {region.id, offset};
      return true;
    }
  }
  return false;
}

std::byte* Regions::at(uint32_t rank, const Place& place, size_t bytes) const {
  if (reach_ == Reach::process) return reinterpret_cast<std::byte*>(place.offset);
  for (const Region& region : regions_) {
    if (region.id != place.region) continue;
    const Part& part = region.parts[rank];
    if (place.offset > part.bytes || bytes > part.bytes - place.offset) return nullptr;
    return part.mapping.base + place.offset;
  }
  return nullptr;
}

}  // namespace tutti::shared
