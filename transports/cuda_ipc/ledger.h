// Which ranks still have which regions of the others' memory open, on a page that all ranks of an
// arena map: memory of a GPU must not be freed before all ranks that opened it have closed it, and
// they may be other processes, or dead.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/mapping.h"
#include "lib/device/driver.h"

namespace tutti::cuda_ipc {

class Ledger {
 public:
  // Rank 0 makes the page, the others map it: `number` is its descriptor in process `pid`.
  static Status make(std::unique_ptr<Ledger>* out);
  static Status join(int pid, int number, std::unique_ptr<Ledger>* out);
  // Rank 0's, until all have joined.
  int descriptor() const { return memory_.get(); }
  void close_descriptor() { memory_.reset(); }

  void set_self(uint32_t self, uint32_t nranks);
  // A rank that is a thread of this process has none.
  void watch(uint32_t rank, Fd process) { processes_[rank] = std::move(process); }

  // This rank opens, or has closed, the others' parts of a region.
  void open(uint32_t region);
  void close(uint32_t region);
  void close_all();
  // Whether another rank that is alive has this rank's part open.
  bool used(uint32_t region) const;

 private:
  struct Page {
    std::atomic<uint64_t> open[device::most_ranks];  // sets of regions
  };
  Page& page() const { return *reinterpret_cast<Page*>(mapping_.base); }
  bool dead(uint32_t rank) const;

  Fd memory_;
  Mapping mapping_;
  uint32_t self_ = 0;
  std::vector<Fd> processes_;  // by rank
};

// Memory of a GPU that is freed once no other rank has it open. Never waits; what stays open is
// freed when the process ends.
struct Leftover {
  device::Driver* driver = nullptr;
  int device = 0;
  device::Address memory = 0;
  uint32_t region = 0;
  std::shared_ptr<const Ledger> ledger;
};
void free_when_unused(Leftover leftover);
// Frees the leftovers that nobody has open; returns the set of regions of `ledger` that are still
// open.
uint64_t free_unused(const Ledger* ledger);

}  // namespace tutti::cuda_ipc
