#include "transports/cuda_ipc/ledger.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <mutex>
#include <string>

namespace tutti::cuda_ipc {

namespace {

struct Leftovers {
  std::mutex mutex;
  std::vector<Leftover> all;
};
Leftovers& leftovers() {
  static auto& kept = *new Leftovers;  // never destroyed
  return kept;
}

void free_now(const Leftover& leftover) {
  const device::Driver::Current here(*leftover.driver, leftover.device);
  if (here.status().ok()) leftover.driver->release(leftover.memory);
}

}  // namespace

Status Ledger::make(std::unique_ptr<Ledger>* out) {
  auto made = std::make_unique<Ledger>();
  TUTTI_TRY(make_memory(sizeof(Page), &made->memory_));
  TUTTI_TRY(map_memory(made->memory_, {0, sizeof(Page)}, &made->mapping_));
  *out = std::move(made);
  return {};
}

Status Ledger::join(int pid, int number, std::unique_ptr<Ledger>* out) {
  auto made = std::make_unique<Ledger>();
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  const Fd memory(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!memory) {
    return system_error("cannot open the memory that process " + std::to_string(pid) + " shares",
                        errno);
  }
  TUTTI_TRY(map_memory(memory, {0, sizeof(Page)}, &made->mapping_));
  *out = std::move(made);
  return {};
}

void Ledger::set_self(uint32_t self, uint32_t nranks) {
  self_ = self;
  processes_.resize(nranks);
}

void Ledger::open(uint32_t region) { page().open[self_].fetch_or(uint64_t(1) << region); }
void Ledger::close(uint32_t region) { page().open[self_].fetch_and(~(uint64_t(1) << region)); }
void Ledger::close_all() { page().open[self_].store(0); }

bool Ledger::dead(uint32_t rank) const {
  pollfd entry{processes_[rank].get(), POLLIN, 0};
  return entry.fd >= 0 && ::poll(&entry, 1, 0) > 0;  // does not wait: a look
}

bool Ledger::used(uint32_t region) const {
  for (uint32_t rank = 0; rank < processes_.size(); ++rank) {
    const bool open = (page().open[rank].load() >> region & 1) != 0;
    if (rank != self_ && open && !dead(rank)) return true;
  }
  return false;
}

void free_when_unused(Leftover leftover) {
  if (!leftover.ledger->used(leftover.region)) return free_now(leftover);
  Leftovers& kept = leftovers();
  const std::lock_guard lock(kept.mutex);
  kept.all.push_back(std::move(leftover));
}

uint64_t free_unused(const Ledger* ledger) {
  Leftovers& kept = leftovers();
  const std::lock_guard lock(kept.mutex);
  uint64_t in_use = 0;
  std::erase_if(kept.all, [&](const Leftover& leftover) {
    if (leftover.ledger->used(leftover.region)) {
      if (leftover.ledger.get() == ledger) in_use |= uint64_t(1) << leftover.region;
      return false;
    }
    free_now(leftover);
    return true;
  });
  return in_use;
}

}  // namespace tutti::cuda_ipc
