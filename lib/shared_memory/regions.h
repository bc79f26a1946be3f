// Symmetric memory: what the ranks of a communicator registered so that the others read and write
// it directly. Which rank's memory lies where in this process is known only here; ranks tell each
// other places, never addresses.
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

// In which region, and where in the rank's part of it.
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

  // Both are collective over the exchange, which has the ranks of the link in their order. Ranks
  // may give different sizes. All ranks get the region, or none does.
  Status allocate(Exchange& exchange, size_t bytes, uint64_t deadline_ns, std::byte** out);
  // `address` is a mapping (MAP_SHARED) of the memory behind `fd`, which `offset` is the place of.
  Status adopt(Exchange& exchange, std::byte* address, size_t bytes, int fd, uint64_t offset,
               uint64_t deadline_ns);
  // What all ranks have mapped here, by rank, as the next region; `own` is this rank's.
  struct Part {
    Mapping mapping;
    size_t bytes = 0;
  };
  void add(std::vector<Part> parts, size_t own);
  // Local. False when no region of this rank begins at `address`.
  bool remove(const void* address);

  // Whether the ranks' vectors may be gone as soon as their calls have ended: memory of the own
  // process is not kept by being mapped elsewhere.
  bool may_vanish() const { return reach_ == Reach::process; }

  // Whether all of [address, address + bytes) of this rank can be reached by the others; then
  // where.
  bool find(const void* address, size_t bytes, Place* out) const {
    if (reach_ == Reach::process) {
      *out = {0, reinterpret_cast<uintptr_t>(address)};
      return true;
    }
    return !regions_.empty() && find_region(address, bytes, out);
  }
  // Where that place of `rank` lies in this process; null when it is none.
  std::byte* at(uint32_t rank, const Place& place, size_t bytes) const;

 private:
  struct Region {
    uint64_t id = 0;
    std::vector<Part> parts;  // by rank; for Reach::none and process only the own one
    size_t own = 0;           // index of the own part
  };

  Status share(Exchange& exchange, const Status& ready, Fd memory, uint64_t offset,
               uint64_t deadline_ns, Part own);
  bool find_region(const void* address, size_t bytes, Place* out) const;

  Reach reach_;
  slots::SlotLink* link_;
  std::vector<Region> regions_;
  uint64_t registrations_ = 0;  // collective so far: the next id
};

}  // namespace tutti::shared
