#include "transports/arena.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "transports/cuda_ipc/arena_state.h"

namespace tutti::cuda_ipc {

using device::Board;
using device::Driver;
using device::Flag;
using device::most_ranks;
using device::most_regions;

namespace {

constexpr uint64_t alignment = 512;
constexpr uint64_t aligned(uint64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

uint64_t process_cookie() {
  static const uint64_t cookie = [] {
    uint64_t value = 0;
    if (getrandom(&value, sizeof(value), 0) != ssize_t(sizeof(value))) value = uint64_t(getpid());
    return value;
  }();
  return cookie;
}

Status describe(Driver& driver, int device, const Arena::Sizes& sizes, Neighbour* out) {
  const Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  struct stat space {};
  if (!file || read(file.get(), out->boot.data(), out->boot.size()) < 36 ||
      stat("/proc/self/ns/pid", &space) != 0) {
    return system_error("cannot tell which host this is", errno);
  }
  out->process_namespace = space.st_ino;
  out->process_cookie = process_cookie();
  out->pid = getpid();
  out->uid = geteuid();
  out->device = device;
  out->slot_bytes = sizes.slot_bytes;
  out->staging_bytes = sizes.staging_bytes;
  device::Info info;
  TUTTI_TRY(driver.info(device, &info));
  out->uuid = info.uuid;
  out->waits = info.waits_in_streams;
  if (sizes.slot_bytes % alignment != 0 || sizes.staging_bytes % alignment != 0) {
    return {TUTTI_INTERNAL, "parts of an arena must be multiples of 512 bytes"};
  }
  return {};
}

std::string two_ranks(uint32_t first, uint32_t second) {
  return "ranks " + std::to_string(first) + " and " + std::to_string(second);
}

}  // namespace

}  // namespace tutti::cuda_ipc

namespace tutti {

using namespace cuda_ipc;

std::string cuda_ipc::pack(const Status& status, const void* offer, size_t bytes) {
  if (!status.ok()) return std::to_string(int(status.code())) + ' ' + status.text();
  return '+' + std::string(static_cast<const char*>(offer), bytes);
}

Status cuda_ipc::unpack(const std::vector<std::string>& all, void* offers, size_t bytes) {
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    const std::string& text = all[rank];
    if (text.size() == bytes + 1 && text[0] == '+') {
      std::memcpy(static_cast<char*>(offers) + rank * bytes, &text[1], bytes);
      continue;
    }
    int code = TUTTI_INTERNAL;
    const char* const end = text.data() + text.size();
    const char* const after = std::from_chars(text.data(), end, code).ptr;
    if (code <= TUTTI_IN_PROGRESS || code > TUTTI_INTERNAL) code = TUTTI_INTERNAL;
    return {tutti_status(code), rank_name(rank) + ":" + std::string(after, size_t(end - after)),
            int(rank)};
  }
  return {};
}

// The driver exports whole blocks; a shorter allocation would export its neighbours in the block
// too.
uint64_t Arena::State::allocated_bytes(uint64_t bytes) const {
  constexpr uint64_t block = uint64_t(2) << 20;
  if (one_process || bytes > UINT64_MAX - block) return bytes;
  return (bytes + block - 1) / block * block;
}

uint64_t Arena::State::slots_offset() const { return aligned(sizeof(Board)); }
uint64_t Arena::State::staging_offset() const {
  return slots_offset() + ranks.size() * 2 * sizes.slot_bytes;
}
uint64_t Arena::State::results_offset() const { return staging_offset() + sizes.staging_bytes; }
uint64_t Arena::State::bytes() const {
  return results_offset() + aligned(sizes.staging_bytes / ranks.size() + 1) + alignment;
}

bool Arena::State::shares_process() const {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank != self && ranks[rank].same_process(own())) return true;
  }
  return false;
}

std::string Arena::State::obstacle() const {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const Neighbour& other = ranks[rank];
    if (!other.waits) {
      return "the GPU of rank " + std::to_string(rank) + " cannot wait for flags in streams";
    }
    if (!own().same_host(other)) {
      return two_ranks(std::min(self, rank), std::max(self, rank)) +
             " are on different hosts, or hidden from each other";
    }
    bool reaches = false;
    const Status asked = driver->reach(own().device, other.uuid, &reaches);
    if (!asked.ok()) return asked.text();
    if (!reaches) {
      return "the GPUs of " + two_ranks(std::min(self, rank), std::max(self, rank)) +
             " cannot reach each other";
    }
  }
  return "";
}

Status Arena::State::start_board(Address board) {
  auto start = std::make_unique<Board>();
  std::memset(start.get(), 0, sizeof(Board));
  for (uint32_t flag = 0; flag < device::flag_kinds; ++flag) {
    if (!device::begins_set(Flag(flag))) continue;
    for (device::FlagWord& word : start->flags[flag]) word.value = device::flag_set;
  }
  return driver->copy(reinterpret_cast<void*>(board), start.get(), sizeof(Board));
}

// Allocates all that this rank needs, before the ranks exchange their offers.
Status Arena::State::allocate(Region* arena) {
  Address memory = 0;
  TUTTI_TRY(driver->allocate(allocated_bytes(bytes()), &memory));
  arena->id = arena_region;
  arena->bytes = bytes();
  arena->made = true;
  arena->parts[self].address = memory;
  TUTTI_TRY(start_board(memory));
  const uint64_t mark = mark_of(self);
  TUTTI_TRY(driver->copy(reinterpret_cast<void*>(memory + staging_offset()), &mark, sizeof(mark)));
  void* pinned = nullptr;
  TUTTI_TRY(driver->allocate_pinned(sizeof(device::Report), &pinned, &report_address));
  report = new (pinned) device::Report{};
  return {};
}

// Whether the memory imported from each rank is that rank's arena.
Status Arena::State::check_marks() const {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    uint64_t mark = 0;
    const Address at = base(rank) + staging_offset();
    TUTTI_TRY(driver->copy(&mark, reinterpret_cast<const void*>(at), sizeof(mark)));
    if (mark == mark_of(rank)) continue;
    return {
        TUTTI_SYSTEM,
        "the driver opened other memory than that which rank " + std::to_string(rank) + " shares",
        int(rank)};
  }
  return {};
}

Status Arena::State::join_ledger(const std::vector<Offer>& offers) {
  if (self != 0) {
    std::unique_ptr<Ledger> joined;
    TUTTI_TRY(Ledger::join(ranks[0].pid, offers[0].ledger, &joined));
    ledger = std::move(joined);
  }
  ledger->set_self(self, uint32_t(ranks.size()));
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].same_process(own())) continue;
    Fd process(int(syscall(SYS_pidfd_open, ranks[rank].pid, 0)));
    if (!process) {
      return system_error("cannot watch process " + std::to_string(ranks[rank].pid), errno);
    }
    ledger->watch(rank, std::move(process));
  }
  return {};
}

Status Arena::open(Driver& driver, Exchange& exchange, int device, const Sizes& sizes,
                   uint64_t deadline_ns, std::unique_ptr<Arena>* out, std::string* why) {
  if (exchange.nranks() > int(most_ranks)) {
    *why = "memory of GPUs is shared by at most " + std::to_string(most_ranks) + " ranks";
    return {};
  }
  free_unused(nullptr);
  auto state = std::make_unique<State>();
  state->driver = &driver;
  state->self = uint32_t(exchange.rank());
  state->sizes = sizes;
  const Driver::Current here(driver, device);
  Status ready = here.status();
  Neighbour mine;
  if (ready.ok()) ready = describe(driver, device, sizes, &mine);
  TUTTI_TRY(gather(exchange, ready, mine, deadline_ns, &state->ranks));

  // A rank that cannot share memory sends UNSUPPORTED instead of an offer.
  const auto unless_unsupported = [why](Status status) {
    if (status.code() != TUTTI_UNSUPPORTED) return status;
    *why = status.text();
    return Status();
  };
  bool alike = true;
  for (const Neighbour& other : state->ranks) {
    state->one_process = state->one_process && other.same_process(mine);
    alike =
        alike && other.slot_bytes == sizes.slot_bytes && other.staging_bytes == sizes.staging_bytes;
  }
  if (!alike) return {TUTTI_MISMATCH, "the ranks' arenas differ in their sizes"};
  Region arena;
  arena.parts.resize(state->ranks.size());
  Offer offer;
  std::unique_ptr<Ledger> ledger;
  if (const std::string obstacle = state->obstacle(); !obstacle.empty()) {
    ready = {TUTTI_UNSUPPORTED, obstacle};
  } else {
    if (state->shares_process()) driver.keep_released_memory(device);
    ready = state->allocate(&arena);
    if (ready.ok() && state->self == 0) ready = Ledger::make(&ledger);
    if (ready.ok()) ready = state->offer(arena, &offer);
    if (ledger != nullptr) offer.ledger = ledger->descriptor();
  }
  state->ledger = std::move(ledger);
  state->regions.push_back(std::move(arena));
  std::vector<Offer> offers;
  Status gathered = gather(exchange, ready, offer, deadline_ns, &offers);
  if (!gathered.ok()) return unless_unsupported(std::move(gathered));

  ready = state->join_ledger(offers);
  if (ready.ok()) state->ledger->open(arena_region);
  if (ready.ok()) ready = state->import(offers, &state->regions[0]);
  if (ready.ok()) ready = state->check_marks();
  state->table.assign(size_t(most_ranks) * most_regions, 0);
  if (ready.ok()) ready = state->publish(state->regions[0]);
  std::vector<uint8_t> all;
  gathered = gather(exchange, ready, uint8_t(0), deadline_ns, &all);
  if (!gathered.ok()) return unless_unsupported(std::move(gathered));
  state->ledger->close_descriptor();
  out->reset(new Arena(std::move(state)));
  return {};
}

Arena::Arena(std::unique_ptr<State> state) : state_(std::move(state)) {}
Arena::~Arena() = default;

Arena::State::~State() {
  if (regions.empty()) return;
  const Driver::Current here(*driver, own().device);
  if (!here.status().ok()) return;
  for (Region& region : regions) close(region);
  driver->release_pinned(report);
}

device::Driver& Arena::driver() const { return *state_->driver; }
int Arena::device() const { return state_->own().device; }
uint32_t Arena::rank() const { return state_->self; }
uint32_t Arena::nranks() const { return uint32_t(state_->ranks.size()); }
bool Arena::one_process() const { return state_->one_process; }

bool Arena::shares_context() const {
  for (uint32_t rank = 0; rank < nranks(); ++rank) {
    const Neighbour& other = state_->ranks[rank];
    const bool same_gpu = other.same_process(state_->own()) && other.device == device();
    if (rank != this->rank() && same_gpu) return true;
  }
  return false;
}

Address Arena::board(uint32_t rank) const { return state_->base(rank); }
Address Arena::slot(uint32_t rank, uint32_t from, uint32_t which) const {
  return state_->base(rank) + state_->slots_offset() +
         (uint64_t(from) * 2 + which) * state_->sizes.slot_bytes;
}
Address Arena::staging(uint32_t rank) const {
  return state_->base(rank) + state_->staging_offset();
}
Address Arena::results(uint32_t rank) const {
  return state_->base(rank) + state_->results_offset();
}
const Arena::Sizes& Arena::sizes() const { return state_->sizes; }
uint64_t Arena::result_bytes() const { return state_->bytes() - state_->results_offset(); }

Address Arena::flag(Flag flag, uint32_t from) const {
  return board(rank()) + offsetof(Board, flags) +
         (uint64_t(flag) * most_ranks + from) * sizeof(device::FlagWord);
}

device::Place Arena::staging_place(uint64_t offset) const {
  return {arena_region, 0, state_->staging_offset() + offset, 0};
}

device::Report& Arena::report() const { return *state_->report; }
Address Arena::report_address() const { return state_->report_address; }

// Sets `over` before the flags, so that no kernel that waits for a flag does anything.
Status Arena::let_go() {
  State& state = *state_;
  const std::lock_guard lock(state.letting_go);
  const Driver::Current here(*state.driver, device());
  TUTTI_TRY(Status(here.status()));
  const Address over = board(rank()) + offsetof(Board, over);
  TUTTI_TRY(state.driver->write_words({&over, 1}, 1));
  std::vector<Address> flags;
  for (uint32_t kind = 0; kind < device::flag_kinds; ++kind) {
    for (uint32_t from = 0; from < nranks(); ++from) flags.push_back(flag(Flag(kind), from));
  }
  return state.driver->write_words(flags, device::flag_over);
}

}  // namespace tutti
