// The regions of an arena: what is imported from other processes, and what the program adds.
#include <sys/prctl.h>

#include <bit>
#include <cstring>

#include "lib/control/agree.h"
#include "transports/cuda_ipc/arena_state.h"

namespace tutti::cuda_ipc {

using device::Driver;
using device::most_regions;

namespace {

constexpr uint64_t all_added = ~uint64_t(0) << first_region_added;
static_assert(most_regions == 64, "sets of regions are 64 bits");

// Allows other processes to fetch this one's descriptors meanwhile (pidfd_getfd): where Yama
// restricts ptrace, only its ancestors may.
class Fetchable {
 public:
  explicit Fetchable(bool needed) : needed_(needed) {
    if (needed_) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  }
  ~Fetchable() {
    if (needed_) prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  }
  Fetchable(const Fetchable&) = delete;
  Fetchable& operator=(const Fetchable&) = delete;

 private:
  bool needed_;
};

// The memory that the program wants to share lies in one allocation on the arena's GPU.
Status check_memory(const Driver& driver, int device, Address address, size_t bytes,
                    device::Pointed* out) {
  *out = driver.classify(reinterpret_cast<const void*>(address));
  if (out->kind == TUTTI_MEMORY_MANAGED) {
    return {TUTTI_INVALID, "managed memory cannot be shared with other ranks"};
  }
  if (out->kind != TUTTI_MEMORY_DEVICE) {
    return {TUTTI_INVALID, "the memory does not lie on a GPU"};
  }
  if (out->device != device) {
    return {TUTTI_INVALID, "the memory lies on GPU " + std::to_string(out->device) +
                               ", the communicator's is GPU " + std::to_string(device)};
  }
  const uint64_t offset = address - out->base;
  if (offset > out->bytes || bytes > out->bytes - offset) {
    return {TUTTI_INVALID, std::to_string(bytes) + " bytes go beyond the end of the allocation, " +
                               std::to_string(out->bytes - offset) + " bytes away"};
  }
  return {};
}

}  // namespace

}  // namespace tutti::cuda_ipc

namespace tutti {

using namespace cuda_ipc;

Status Arena::State::offer(const Region& region, Offer* out) {
  const Address address = region.parts[self].address;
  out->address = address;
  if (one_process) return {};
  const device::Pointed pointed = driver->classify(reinterpret_cast<const void*>(address));
  out->offset = address - pointed.base;
  return driver->export_memory(pointed.base, &out->exported);
}

Status Arena::State::import(const std::vector<Offer>& offers, Region* region) {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const Offer& offer = offers[rank];
    Part& part = region->parts[rank];
    if (ranks[rank].same_process(own())) {
      part.address = offer.address;
      continue;
    }
    TUTTI_TRY(driver->import_memory(offer.exported, ranks[rank].pid, &part.imported));
    part.from = offer.exported;
    part.address = part.imported + offer.offset;
  }
  return {};
}

// Writes the region's addresses to the board, where the kernels read them.
Status Arena::State::publish(const Region& region) {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    table[size_t(rank) * most_regions + region.id] = region.parts[rank].address;
  }
  return driver->copy(reinterpret_cast<void*>(base(self) + offsetof(device::Board, regions)),
                      table.data(), table.size() * sizeof(Address));
}

void Arena::State::close(Region& region) {
  for (Part& part : region.parts) {
    if (part.imported != 0) driver->close_import(part.from, part.imported);
  }
  driver->close_export(region.exported);
  const Address own_part = region.parts[self].address;
  if (ledger != nullptr) ledger->close(region.id);
  if (!region.made || own_part == 0) return;
  if (ledger == nullptr) {
    driver->release(own_part);
  } else {
    free_when_unused({driver, own().device, own_part, region.id, ledger});
  }
}

Status Arena::add(Exchange& exchange, bool make, Address address, size_t bytes,
                  uint64_t deadline_ns, Address* out) {
  State& state = *state_;
  const Driver::Current here(*state.driver, device());
  Status ready = here.status();
  Region region;
  region.made = make;
  region.bytes = bytes;
  region.parts.resize(nranks());
  Address& own_part = region.parts[rank()].address;
  device::Pointed pointed;
  if (ready.ok()) {
    ready = make ? state.driver->allocate(state.allocated_bytes(bytes), &own_part)
                 : check_memory(*state.driver, device(), address, bytes, &pointed);
  }
  if (!make) own_part = address;
  Offer mine;
  if (ready.ok()) ready = state.offer(region, &mine);
  region.exported = mine.exported;
  mine.free_regions = all_added & ~free_unused(state.ledger.get());
  for (const Region& taken : state.regions) mine.free_regions &= ~(uint64_t(1) << taken.id);

  const Fetchable fetchable(mine.exported.fd >= 0);
  Status outcome = state.share(exchange, ready, mine, deadline_ns, &region);
  state.driver->close_export(region.exported);
  if (!outcome.ok()) {
    state.close(region);
    return outcome;
  }
  *out = own_part;
  state.regions.push_back(std::move(region));
  return {};
}

// Collective: makes a region of all ranks' parts. `ready`: whether this rank has its part.
Status Arena::State::share(Exchange& exchange, const Status& ready, const Offer& mine,
                           uint64_t deadline_ns, Region* region) {
  std::vector<Offer> offers;
  TUTTI_TRY(gather(exchange, ready, mine, deadline_ns, &offers));
  uint64_t free = all_added;
  for (const Offer& offer : offers) free &= offer.free_regions;
  if (free == 0) {
    return {TUTTI_NO_MEMORY, "a communicator shares at most " +
                                 std::to_string(most_regions - first_region_added) +
                                 " pieces of memory of GPUs"};
  }
  region->id = uint32_t(std::countr_zero(free));
  ledger->open(region->id);
  Status imported = import(offers, region);
  if (imported.ok()) imported = publish(*region);
  return agree(exchange, imported, deadline_ns);
}

bool Arena::remove(Address address) {
  State& state = *state_;
  for (auto region = state.regions.begin() + 1; region != state.regions.end(); ++region) {
    if (region->parts[rank()].address != address) continue;
    const Driver::Current here(*state.driver, device());
    if (here.status().ok()) state.close(*region);
    state.regions.erase(region);
    return true;
  }
  return false;
}

bool Arena::find(Address address, size_t bytes, device::Place* out) const {
  const State& state = *state_;
  if (state.one_process) {
    *out = {device::process_region, 0, address, 0};
    return true;
  }
  for (const Region& region : state.regions) {
    const uint64_t offset = address - region.parts[rank()].address;
    if (region.id == arena_region || offset > region.bytes || bytes > region.bytes - offset) {
      continue;
    }
    *out = {region.id, 0, offset, 0};
    return true;
  }
  return false;
}

}  // namespace tutti
