// What the parts of the arena share.
#pragma once

#include <mutex>
#include <span>
#include <string>

#include "lib/control/exchange.h"
#include "transports/arena.h"
#include "transports/cuda_ipc/ledger.h"

namespace tutti::cuda_ipc {

using device::Address;

constexpr uint32_t arena_region = 2;        // of abi.h's Place: the arenas themselves
constexpr uint32_t first_region_added = 3;  // and those that the program added

// A process, and the GPU that the rank uses in it.
struct Neighbour {
  std::array<char, 40> boot{};  // of the host: random, as text
  uint64_t process_namespace = 0;
  uint64_t process_cookie = 0;  // random, because a pid may be used again
  int32_t pid = 0;
  uint32_t uid = 0;
  int32_t device = 0;
  uint32_t waits = 0;
  std::array<uint8_t, 16> uuid{};
  uint64_t slot_bytes = 0, staging_bytes = 0;

  bool same_host(const Neighbour& other) const {
    return boot == other.boot && process_namespace == other.process_namespace && uid == other.uid;
  }
  bool same_process(const Neighbour& other) const {
    return same_host(other) && pid == other.pid && process_cookie == other.process_cookie;
  }
};

// A rank's part of a region, as it offers it to the others: where it lies in an exported
// allocation.
struct Offer {
  device::Exported exported;
  uint64_t address = 0;       // in its process
  uint64_t offset = 0;        // of the address in the exported allocation
  uint64_t free_regions = 0;  // a set
  int32_t ledger = -1;        // rank 0's descriptor, while an arena is opened
};

struct Part {
  Address address = 0;    // in this process
  Address imported = 0;   // where the imported allocation begins; 0: nothing was imported
  device::Exported from;  // what was imported
};

struct Region {
  uint32_t id = 0;
  uint64_t bytes = 0;  // of this rank's part
  bool made = false;   // allocated by tutti
  device::Exported exported;
  std::vector<Part> parts;  // by rank
};

// A text of one rank: what it offers, or why it cannot.
std::string pack(const Status& status, const void* offer, size_t bytes);
// All ranks' texts: the first error among them, or all offers.
Status unpack(const std::vector<std::string>& all, void* offers, size_t bytes);

// Collective: what every rank offers, or an error on all. A rank with an error gets its own.
template <class Item>
Status gather(Exchange& exchange, const Status& own, const Item& mine, uint64_t deadline_ns,
              std::vector<Item>* out) {
  std::vector<std::string> all;
  const Status exchanged = exchange.allgather(pack(own, &mine, sizeof(mine)), deadline_ns, &all);
  if (!own.ok()) return own;
  if (!exchanged.ok()) return exchanged;
  out->resize(all.size());
  return unpack(all, out->data(), sizeof(Item));
}

}  // namespace tutti::cuda_ipc

namespace tutti {

struct Arena::State {
  device::Driver* driver = nullptr;
  std::vector<cuda_ipc::Neighbour> ranks;
  uint32_t self = 0;
  Sizes sizes;
  bool one_process = true;
  std::shared_ptr<cuda_ipc::Ledger> ledger;
  std::vector<cuda_ipc::Region> regions;
  std::vector<device::Address> table;  // Board::regions
  device::Report* report = nullptr;
  device::Address report_address = 0;
  std::mutex letting_go;

  ~State();
  const cuda_ipc::Neighbour& own() const { return ranks[self]; }
  uint64_t slots_offset() const;
  uint64_t staging_offset() const;
  uint64_t results_offset() const;
  uint64_t bytes() const;
  uint64_t allocated_bytes(uint64_t bytes) const;  // how many to allocate to share so many
  // The mark at the beginning of a rank's staging buffer, before it is used.
  uint64_t mark_of(uint32_t rank) const { return ranks[rank].process_cookie + rank; }
  device::Address base(uint32_t rank) const { return regions[0].parts[rank].address; }

  // Whether another rank is a thread of this process.
  bool shares_process() const;

  // Steps of opening.
  std::string obstacle() const;  // why these ranks cannot share memory; "": they can
  Status allocate(cuda_ipc::Region* arena);
  Status start_board(device::Address board);
  Status check_marks() const;
  Status join_ledger(const std::vector<cuda_ipc::Offer>& offers);

  Status offer(const cuda_ipc::Region& region, cuda_ipc::Offer* out);
  Status share(Exchange& exchange, const Status& ready, const cuda_ipc::Offer& mine,
               uint64_t deadline_ns, cuda_ipc::Region* region);
  Status import(const std::vector<cuda_ipc::Offer>& offers, cuda_ipc::Region* region);
  Status publish(const cuda_ipc::Region& region);
  void close(cuda_ipc::Region& region);
};

}  // namespace tutti
