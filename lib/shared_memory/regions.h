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
#include "lib/shared_memory/adopted.h"

namespace tutti::shared {

// A region, and the offset into the rank's part of it, in bytes.
struct Place {
  uint64_t region = 0;
  uint64_t offset = 0;
};

// How many bytes at the beginning and at the end of memory the others do not reach.
struct Edges {
  size_t head = 0, tail = 0;
};

// The error of a call in which `rank` passed memory that this rank has freed.
Status freed_here(uint32_t rank, uint32_t self);

class Regions {
 public:
  // How far memory can be shared: not at all, with threads of this process (then every address is a
  // place), or with processes of this host.
  enum class Reach : uint8_t { none, process, host };

  explicit Regions(Reach reach) : reach_(reach) {}

  // allocate(), enlist() and adopt() are collective over the exchange, which has the ranks of the
  // communicator in their order. Ranks may give different sizes. All ranks get the region, or none
  // does.
  Status allocate(Exchange& exchange, size_t bytes, uint64_t deadline_ns, std::byte** out);
  // `address` is a mapping (MAP_SHARED) of the memory behind `fd` from `offset` on.
  Status enlist(Exchange& exchange, std::byte* address, size_t bytes, int fd, uint64_t offset,
                uint64_t deadline_ns);
  // Ordinary memory. Its edges, which are no whole pages, stay out of the others' reach.
  Status adopt(Exchange& exchange, std::byte* address, size_t bytes, Adopted::End end,
               uint64_t deadline_ns);
  // Adds the parts of all ranks, mapped here, as the next region; `own`: index of this rank's.
  struct Part {
    Mapping mapping;  // of all `bytes`; where there are edges, only what is between them is mapped
    size_t bytes = 0;
    Edges edges;
    std::shared_ptr<Adopted> adopted;  // of the own part
  };
  void add(std::vector<Part> parts, size_t own);
  // Local. False when no region of this rank begins at `address`.
  bool remove(const void* address);
  // The one with that id, which the last one that was added has. Of adopted memory the own pages
  // end so.
  uint64_t last_id() const { return registrations_; }
  void remove(uint64_t id, Adopted::End end);

  // Whether calls use adopted memory that will be left to the program, too. Peers that are slow to
  // find out that a call has failed may still write to it, so such a call's must be given back.
  void use_left(bool use) { uses_left_ = use; }
  // Whether find() finds it while they do.
  bool reaches(const void* address, size_t bytes) const {
    Place place;
    return find_region(address, bytes, true, &place);
  }

  // Whether a rank's vectors may be freed as soon as its call has ended: memory of one process has
  // no mapping at the peers that would keep it.
  bool may_vanish() const { return reach_ == Reach::process; }

  // Whether the others can reach [address, address + bytes) of this rank, all of it but its edges;
  // *out: as what place.
  bool find(const void* address, size_t bytes, Place* out) const {
    if (reach_ == Reach::process) {
      *out = {0, reinterpret_cast<uintptr_t>(address)};
      return true;
    }
    return !regions_.empty() && find_region(address, bytes, uses_left_, out);
  }
  // Where that place of `rank` lies in this process, which may point to nothing within edges;
  // null if [place, place + bytes) is in no region. It stays mapped as long as *owner lives: the
  // program may remove the region while a call uses the others' parts.
  std::byte* at(uint32_t rank, const Place& place, size_t bytes,
                std::shared_ptr<void>* owner) const;

  // The edges of vectors of such elements, in whole ones: as long as those of any rank can be, so
  // the same on all ranks. Where elements divide a line, what is between them begins with one.
  Edges edges_of(size_t element_size) const;
  // Copies those of `vector`, of `bytes`, to where all read them.
  void copy_edges(uint32_t self, const Edges& edges, const std::byte* vector, uint64_t bytes) const;
  // Where `rank` puts copies of a vector's first edge, and of its second one. Only where there are
  // edges.
  std::byte* head_copy(uint32_t rank) const { return edge_copies_[rank].mapping.base; }
  std::byte* tail_copy(uint32_t rank) const { return head_copy(rank) + most_edge_bytes(); }

 private:
  static size_t most_edge_bytes();  // a page and an element
  struct Region {
    uint64_t id = 0;
    std::vector<Part> parts;  // by rank; only the own one for Reach::none and Reach::process
    size_t own = 0;           // index of the own part
  };

  Status share(Exchange& exchange, const Status& ready, Fd memory, uint64_t offset,
               uint64_t deadline_ns, Part own, std::vector<Part>* out);
  size_t own_index(const Exchange& exchange) const;
  bool find_region(const void* address, size_t bytes, bool left, Place* out) const;

  Reach reach_;
  std::vector<Region> regions_;
  uint64_t registrations_ = 0;  // collective ones so far: the last id
  bool uses_left_ = false;
  Edges edges_;                    // the longest of any rank
  std::vector<Part> edge_copies_;  // by rank; empty until memory with edges is adopted
};

}  // namespace tutti::shared
