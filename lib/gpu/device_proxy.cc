// What the host does for stream-ordered calls between GPUs that cannot reach each other.
#include "lib/gpu/device_proxy.h"

#include <sched.h>

#include <cstring>
#include <optional>
#include <system_error>

#include "lib/base/clock.h"
#include "lib/control/agree.h"
#include "lib/control/host.h"

namespace tutti {

using device::flag_over;
using device::flag_set;

namespace {

// What a rank tells the others about where it runs.
struct Seat {
  HostRecord host;
  std::array<uint8_t, 16> gpu{};
  uint64_t waits = 0;  // whether it can wait for flags in streams
};

uint32_t read(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

// The thread's backoff while nothing comes from the GPU: first it only yields, because the next
// slice is about to come; then it naps; after about a second without a slice it sleeps longer.
class Rest {
 public:
  void begin_anew() { looks_ = 0; }
  void take() {
    constexpr uint64_t eager = 50, awake = 10'000;
    constexpr timespec nap{0, 50'000}, sleep{0, 500'000};
    if (++looks_ <= eager) {
      sched_yield();
    } else {
      nanosleep(looks_ <= awake ? &nap : &sleep, nullptr);
    }
  }

 private:
  uint64_t looks_ = 0;
};

}  // namespace

// ---------------------------------------------------------------- opening and closing

DeviceProxy::DeviceProxy(device::Driver& driver, int device, SliceHosts hosts, OnFailure on_failure)
    : driver_(driver), device_(device), on_failure_(std::move(on_failure)) {
  staged_.host = std::move(hosts.staged);
  direct_.host = std::move(hosts.direct);
}

Status DeviceProxy::open(Exchange& exchange, device::Driver& driver, int device, SliceHosts hosts,
                         OnFailure on_failure, uint64_t deadline_ns,
                         std::unique_ptr<DeviceProxy>* out, std::string* why) {
  std::unique_ptr<DeviceProxy> made(
      new DeviceProxy(driver, device, std::move(hosts), std::move(on_failure)));
  std::string obstacle;
  TUTTI_TRY(made->meet(exchange, deadline_ns, &obstacle));
  if (!obstacle.empty()) {
    *why = std::move(obstacle);
    return {};
  }
  const device::Driver::Current current(driver, device);
  Status ready = current.status();
  if (ready.ok()) ready = made->open_local();
  TUTTI_TRY(agree(exchange, ready, deadline_ns));
  *out = std::move(made);
  return {};
}

Status DeviceProxy::meet(Exchange& exchange, uint64_t deadline_ns, std::string* why) {
  Seat mine;
  device::Info info;
  Status known = HostRecord::own(&mine.host);
  if (known.ok()) known = driver_.info(device_, &info);
  TUTTI_TRY(agree(exchange, known, deadline_ns));
  mine.gpu = info.uuid;
  mine.waits = info.waits_in_streams ? 1 : 0;
  std::vector<std::string> all;
  TUTTI_TRY(
      exchange.allgather({reinterpret_cast<const char*>(&mine), sizeof(mine)}, deadline_ns, &all));
  for (int rank = 0; rank < exchange.nranks(); ++rank) {
    const std::string& text = all[size_t(rank)];
    if (text.size() != sizeof(Seat)) {
      return {TUTTI_CORRUPT, rank_name(rank) + " introduced itself wrongly", rank};
    }
    Seat seat;
    std::memcpy(&seat, text.data(), sizeof(seat));
    if (seat.waits == 0 && why->empty()) {
      *why = "the GPU of rank " + std::to_string(rank) + " cannot wait for flags in streams";
    }
    const bool other = rank != exchange.rank();
    if (other && seat.host.same_process(mine.host) && seat.gpu == mine.gpu) shares_context_ = true;
  }
  return {};
}

Status DeviceProxy::open_local() {
  TUTTI_TRY(staged_.slots.allocate(driver_, device_, ProxySlots::In::host));
  if (direct_.host) TUTTI_TRY(direct_.slots.allocate(driver_, device_, ProxySlots::In::gpu));
  void* board = nullptr;
  TUTTI_TRY(driver_.allocate_pinned(sizeof(device::Board), &board, &board_address_));
  std::memset(board, 0, sizeof(device::Board));
  board_ = static_cast<device::Board*>(board);
  TUTTI_TRY(driver_.kernel("tutti_empty", &kernel_));
  auto* const there =
      reinterpret_cast<device::Board*>(board_address_);  // NOLINT(performance-no-int-to-ptr)
  common_.own = there;
  for (device::Board*& one : common_.boards) one = there;
  for (device::Stream* stream : {&giving_, &taking_}) TUTTI_TRY(driver_.make_stream(stream));
  for (device::Event* event : {&forked_, &joined_}) TUTTI_TRY(driver_.make_event(event));
  for (device::Event& event : given_) TUTTI_TRY(driver_.make_event(&event));
  for (device::Event& event : taken_) TUTTI_TRY(driver_.make_event(&event));
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    return {TUTTI_SYSTEM, std::string("cannot start a thread: ") + error.what()};
  }
  return {};
}

DeviceProxy::~DeviceProxy() {
  if (thread_.joinable()) {
    if (!idle()) let_go({TUTTI_ABORTED, "the communicator was freed"});
    stops_.store(true, std::memory_order_release);
    thread_.join();
  }
  const device::Driver::Current current(driver_, device_);
  for (const device::Event event : {forked_, joined_}) {
    if (event != nullptr) driver_.release_event(event);
  }
  for (const auto* const events : {&given_, &taken_}) {
    for (const device::Event event : *events) {
      if (event != nullptr) driver_.release_event(event);
    }
  }
  for (const device::Stream stream : {giving_, taking_}) {
    if (stream != nullptr) driver_.release_stream(stream);
  }
  for (Route* route : {&staged_, &direct_}) route->host.reset();
  if (board_ != nullptr) driver_.release_pinned(board_);
}

// ---------------------------------------------------------------- the thread

void DeviceProxy::work() {
  // A transport may use the thread's current GPU.
  std::optional<device::Driver::Current> current;
  if (direct_.host) current.emplace(driver_, device_);
  for (const Route* route : {&staged_, &direct_}) {
    if (route->host) route->host->claim();
  }
  Rest rest;
  while (!stops_.load(std::memory_order_acquire)) {
    if (failed_.load(std::memory_order_acquire)) {
      // Repeatedly: a read-modify-write of a word by the GPU may undo one by the host at the same
      // time.
      release_waits();
      rest.take();
      continue;
    }
    const uint64_t number = next_.load(std::memory_order_relaxed);
    const uint32_t slot = uint32_t(number % slots);
    uint32_t* const full = flag(device::ready_1, slot);
    if ((read(full) & flag_set) == 0) {
      rest.take();
      continue;
    }
    rest.begin_anew();
    const device::Entry& entry = board_->entries[device::fused_channel][slot];
    const auto& described =
        *reinterpret_cast<const Described*>(entry.digest);  // NOLINT(performance-no-int-to-ptr)
    const Status ended = run_slice(described, number, slot);
    if (!ended.ok()) {
      on_failure_(ended);
      continue;
    }
    __atomic_fetch_and(full, ~flag_set, __ATOMIC_RELAXED);
    const bool last = number + 1 == described.slices;
    next_.store(last ? 0 : number + 1, std::memory_order_relaxed);
    __atomic_fetch_or(flag(device::ready_2, slot), flag_set, __ATOMIC_RELEASE);
  }
}

Status DeviceProxy::run_slice(const Described& described, uint64_t number, uint32_t slot) {
  if (board_->entries[device::fused_channel][slot].count != number) {
    return {TUTTI_ABORTED,
            "two calls on the communicator's GPU overlap: graphs of calls must be launched one "
            "after the other"};
  }
  Call call;
  call.key = described.key;
  call.key.count = described.count_of(number);
  const Route& route = *described.route;
  call.input = route.slots.input(slot);
  call.output = route.slots.output(call.key.collective, slot);
  call.timeout_ms = described.timeout_ms;
  return route.host->run_slice(call, described.key.count);
}

// ---------------------------------------------------------------- any thread

void DeviceProxy::release_waits() {
  __atomic_store_n(&board_->over, 1, __ATOMIC_SEQ_CST);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    __atomic_fetch_or(flag(device::ready_2, slot), flag_over, __ATOMIC_SEQ_CST);
  }
}

void DeviceProxy::let_go(const Status& why) {
  failed_.store(true, std::memory_order_release);
  release_waits();
  for (const Route* route : {&staged_, &direct_}) {
    if (route->host) route->host->abort(why);
  }
}

bool DeviceProxy::idle() const {
  if (next_.load(std::memory_order_acquire) != 0) return false;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    const uint32_t flags = read(flag(device::ready_1, slot)) | read(flag(device::ready_2, slot));
    if ((flags & flag_set) != 0) return false;
  }
  return true;
}

}  // namespace tutti
