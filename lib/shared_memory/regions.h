// Symmetric memory: what the ranks of a communicator registered so that the others read and write
// it directly. Only this class knows where each rank's memory is mapped in this process; ranks
// exchange places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/mapping.h"
#include "lib/control/exchange.h"

namespace tutti::slots {
class SlotLink;
}

namespace tutti::shared {

// A region, and the offset into the rank's part of it, in bytes.
struct Place {
  uint64_t region = 0;
  uint64_t offset = 0;
};

class Regions {
 public:
  // How far memory can be shared: not at all, with threads of this process (then every address is a
  // place), or with processes of this host.
  enum class Reach : uint8_t { none, process, host };

  // `link` joins all ranks of the communicator; it may be null for Reach::none.
  Regions(Reach reach, slots::SlotLink* link) : reach_(reach), link_(link) {}

  // allocate() and adopt() are collective over the exchange, which has the ranks of the link in
  // their order. Ranks may give different sizes. All ranks get the region, or none does.
  Status allocate(Exchange& exchange, size_t bytes, uint64_t deadline_ns, std::byte** out);
  // `address` is a mapping (MAP_SHARED) of the memory behind `fd` from `offset` on.
  Status adopt(Exchange& exchange, std::byte* address, size_t bytes, int fd, uint64_t offset,
               uint64_t deadline_ns);
  // Adds the parts of all ranks, mapped here, as the next region; `own`: index of this rank's.
  struct Part {
    Mapping mapping;
    size_t bytes = 0;
  };
  void add(std::vector<Part> parts, size_t own);
  // Local. False when no region of this rank begins at `address`.
  bool remove(const void* address);

  // Whether a rank's vectors may be freed as soon as its call has ended: memory of one process has
  // no mapping at the peers that would keep it.
  bool may_vanish() const { return reach_ == Reach::process; }

  // Whether the others can reach all of [address, address + bytes) of this rank; *out: as what
  // place.
  bool find(const void* address, size_t bytes, Place* out) const {
    if (reach_ == Reach::process) {
      *out = {0, reinterpret_cast<uintptr_t>(address)};
      return true;
    }
    return !regions_.empty() && find_region(address, bytes, out);
  }
  // Where that place of `rank` lies in this process; null if [place, place + bytes) is in no
  // region.
  std::byte* at(uint32_t rank, const Place& place, size_t bytes) const;

 private:
  struct Region {
    uint64_t id = 0;
    std::vector<Part> parts;  // by rank; only the own one for Reach::none and Reach::process
    size_t own = 0;           // index of the own part
  };

  Status share(Exchange& exchange, const Status& ready, Fd memory, uint64_t offset,
               uint64_t deadline_ns, Part own);
  bool find_region(const void* address, size_t bytes, Place* out) const;

  Reach reach_;
  slots::SlotLink* link_;
  std::vector<Region> regions_;
  uint64_t registrations_ = 0;  // collective ones so far: the last id
};

}  // namespace tutti::shared
