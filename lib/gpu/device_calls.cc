#include "lib/gpu/device_calls.h"

#include <sched.h>

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/control/agree.h"

namespace tutti {

using device::Address;
using device::address_of;
using device::Driver;
using device::pointer_to;

namespace {

// What DeviceCalls::prepare() has put into the entry, in words.
std::string describe(const device::Entry& entry) {
  CallSignature signature;
  signature.count = entry.count;
  signature.root = int32_t(entry.root);
  signature.collective = Collective(entry.collective & 0xff);
  signature.level = uint8_t(entry.collective >> 8);
  signature.algorithm = uint16_t(entry.collective >> 16);
  signature.dtype = uint8_t(entry.dtype);
  signature.op = uint8_t(entry.op);
  return signature.describe();
}

uint64_t read(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

}  // namespace

// ---------------------------------------------------------------- opening and closing

Status DeviceCalls::open(Exchange& exchange, const Setup& setup, uint64_t deadline_ns,
                         std::unique_ptr<DeviceCalls>* out) {
  Driver* driver = nullptr;
  Setup own = setup;
  Status found = Driver::get(&driver);
  if (found.ok()) {
    if (own.device < 0) own.device = std::max(0, driver->current());
    if (own.device >= driver->devices()) {
      found = {TUTTI_INVALID, "there is no GPU " + std::to_string(own.device) +
                                  "; this process has " + std::to_string(driver->devices())};
    }
  }
  TUTTI_TRY(agree(exchange, found, deadline_ns));
  std::unique_ptr<DeviceCalls> made(new DeviceCalls(*driver, own));
  made->rank_ = uint32_t(exchange.rank());
  const Driver::Current current(*driver, own.device);
  TUTTI_TRY(agree(exchange, current.status(), deadline_ns));
  TUTTI_TRY(made->open_arena(exchange, deadline_ns));
  if (made->arena_ != nullptr) {
    TUTTI_TRY(PeerStatusPage::open(exchange, deadline_ns, &made->peer_status_));
    TUTTI_TRY(agree(exchange, made->open_local(), deadline_ns));
    service_thread::add(made.get());
    made->watched_ = true;
  }
  *out = std::move(made);
  return {};
}

// If one rank is set to go through the host, all ranks get its UNSUPPORTED.
Status DeviceCalls::open_arena(Exchange& exchange, uint64_t deadline_ns) {
  Status own;
  if (setup_.through_host != nullptr) own = {TUTTI_UNSUPPORTED, setup_.through_host};
  Status agreed = agree(exchange, own, deadline_ns);
  if (agreed.code() == TUTTI_UNSUPPORTED) {
    why_not_ = agreed.text();
    return {};
  }
  TUTTI_TRY(std::move(agreed));
  return Arena::open(driver_, exchange, setup_.device, {}, deadline_ns, &arena_, &why_not_);
}

Status DeviceCalls::open_local() {
  TUTTI_TRY(plan::StreamKernels::open(*arena_, &kernels_));
  TUTTI_TRY(plan::StreamLanes::open(*kernels_, &lanes_));
  return make_events();
}

// The stream of a lane, not one more: a GPU has few hardware queues, which streams share, so that a
// wait in one is head-of-line blocking for the others in its queue.
Status DeviceCalls::own_stream(device::Stream* out) const {
  uint64_t capture = 0;
  TUTTI_TRY(driver_.capture_of(lanes_->outgoing_stream(), &capture));
  if (capture != 0) {
    return {TUTTI_INVALID,
            "calls of the communicator are being captured that use its streams: a call that blocks "
            "must wait until the capture has ended"};
  }
  *out = lanes_->outgoing_stream();
  return {};
}

Status DeviceCalls::make_events() {
  for (device::Event* event : {&own_event_, &last_event_, &captured_event_}) {
    TUTTI_TRY(driver_.make_event(event));
  }
  return {};
}

Status DeviceCalls::open_proxy(Exchange& exchange, SliceHosts hosts, uint64_t deadline_ns) {
  const Driver::Current current(driver_, setup_.device);
  TUTTI_TRY(agree(exchange, current.status().ok() ? make_events() : current.status(), deadline_ns));
  TUTTI_TRY(DeviceProxy::open(
      exchange, driver_, setup_.device, std::move(hosts), [this](const Status& why) { fail(why); },
      deadline_ns, &proxy_, &why_not_));
  if (proxy_ != nullptr && proxy_->shares_context()) driver_.keep_released_memory(setup_.device);
  return {};
}

DeviceCalls::~DeviceCalls() {
  const Driver::Current current(driver_, setup_.device);
  if (proxy_ != nullptr) drain_proxy();
  proxy_.reset();
  if (watched_) {
    drain();
    service_thread::remove(this);
    const device::Report& report = arena_->report();
    peer_status_->publish(read(report.begun), read(report.ended));
    peer_status_->leave();
  }
  lanes_.reset();
  kernels_.reset();
  for (const device::Event event : {own_event_, last_event_, captured_event_}) {
    if (event != nullptr) driver_.release_event(event);
  }
  for (const Address memory : scratch_) driver_.release(memory);
  for (const Address memory : unshared_) driver_.release(memory);
}

// No memory of this rank may be freed while others still use it: their flags say when they no
// longer do.
void DeviceCalls::drain() {
  constexpr uint64_t grace_ns = 100'000'000, most_ns = 2'000'000'000;
  const uint32_t others = kernels_->others();
  device::Stream stream = nullptr;
  Status told = own_stream(&stream);
  if (told.ok() && any_) told = driver_.wait_event(stream, last_event_);
  if (told.ok()) {
    told = kernels_->wait(stream, {{device::free_1, others},
                                   {device::free_2, others},
                                   {device::empty_0, others},
                                   {device::empty_1, others}});
  }
  if (told.ok()) told = driver_.record(own_event_, stream);
  const uint64_t begun_ns = now_ns(), limit_ns = ns_of_ms(setup_.timeout_ms);
  bool ended = false;
  while (told.ok()) {
    told = driver_.ended(own_event_, &ended);
    const uint64_t waited_ns = now_ns() - begun_ns;
    if (ended || waited_ns > later_ns(limit_ns, most_ns)) break;
    if (waited_ns > limit_ns) fail({TUTTI_TIMEOUT, "other ranks still use memory of this one"});
    for (int rank = 0; rank < peer_status_->nranks() && waited_ns > grace_ns; ++rank) {
      if (rank == peer_status_->rank() || !peer_status_->look(rank).died) continue;
      fail({TUTTI_PEER_FAILED, rank_name(rank) + "'s process has ended", rank});
    }
    sched_yield();
  }
}

// Waits until the host has completed what has begun, or has failed.
void DeviceCalls::drain_proxy() {
  constexpr uint64_t most_ns = 2'000'000'000;
  const uint64_t limit_ns = later_ns(deadline_after_ms(setup_.timeout_ms), most_ns);
  uint64_t failed_ns = 0;
  while (now_ns() < limit_ns && (failed_ns == 0 || now_ns() - failed_ns < most_ns)) {
    bool ended = !any_;
    if (any_ && !driver_.ended(last_event_, &ended).ok()) return;
    if (failed() && failed_ns == 0) failed_ns = now_ns();
    if (ended && (proxy_->idle() || failed())) return;
    sched_yield();
  }
}

void DeviceCalls::settle() {
  constexpr uint64_t most_ns = 2'000'000'000;
  const uint64_t limit_ns = now_ns() + most_ns;
  bool ended = false;
  while (own_ended(&ended).ok() && !ended && now_ns() < limit_ns) {
    sched_yield();
  }
}

// ---------------------------------------------------------------- failure

Status DeviceCalls::failure() {
  if (arena_ != nullptr) look();
  const std::lock_guard lock(mutex_);
  return failure_;
}

void DeviceCalls::fail(Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    if (proxy_ != nullptr) proxy_->let_go(why);
    if (arena_ != nullptr) {
      peer_status_->fail(why);
      if (const Status gone = arena_->let_go(); !gone.ok()) {
        why = {why.code(), why.text() + "; nor does its GPU obey: " + gone.text(), why.rank(),
               why.call()};
      }
    }
    failure_ = why;
    failed_.store(true, std::memory_order_release);
  }
  if (setup_.on_failure) setup_.on_failure(why);
}

void DeviceCalls::look() {
  if (failed_.load(std::memory_order_acquire)) return;
  Status found;
  {
    // The clock is read under the lock: the program and the library's thread look at once.
    const std::lock_guard lock(mutex_);
    found = look_at_own(now_ns());
  }
  if (!found.ok()) fail(std::move(found));
}

Status DeviceCalls::look_at_own(uint64_t now_ns) {
  const device::Report& report = arena_->report();
  const uint64_t ended = read(report.ended), begun = read(report.begun);
  peer_status_->publish(begun, ended);
  if (__atomic_load_n(&report.failed, __ATOMIC_ACQUIRE) != 0) return mismatch();
  for (int rank = 0; rank < peer_status_->nranks(); ++rank) {
    if (rank == peer_status_->rank()) continue;
    if (Status theirs = peer_status_->failure_of(rank); !theirs.ok()) return theirs;
  }
  if (begun == ended) return {};
  if (begun != seen_begun_) {
    seen_begun_ = begun;
    seen_ns_ = now_ns;
    suspect_ = -1;
  }
  TUTTI_TRY(look_at_others(begun, now_ns));
  if (now_ns - seen_ns_ < ns_of_ms(int64_t(read(report.timeout_ms)))) return {};
  return describe_timeout();
}

// A rank may leave when its part in a call is done, so one that has left counts as failed only if
// the call still runs a while later.
Status DeviceCalls::look_at_others(uint64_t begun, uint64_t now_ns) {
  constexpr uint64_t sure_ns = 5'000'000;
  for (int rank = 0; rank < peer_status_->nranks(); ++rank) {
    if (rank == peer_status_->rank()) continue;
    const PeerStatusPage::Seen seen = peer_status_->look(rank);
    const bool gone = seen.died || (seen.left && seen.begun < begun);
    if (!gone) continue;
    if (suspect_ != rank || suspect_call_ != begun) {
      suspect_ = rank;
      suspect_call_ = begun;
      suspect_ns_ = now_ns;
    }
    if (now_ns - suspect_ns_ < sure_ns) return {};
    return {TUTTI_PEER_FAILED,
            rank_name(rank) + (seen.died ? "'s process has ended" : " has freed its communicator") +
                " while " + rank_name(peer_status_->rank()) + " was in call " +
                std::to_string(begun) + " on the GPU",
            rank, begun};
  }
  return {};
}

Status DeviceCalls::describe_timeout() const {
  const uint64_t begun = read(arena_->report().begun);
  const std::string text = rank_name(peer_status_->rank()) + " is in call " +
                           std::to_string(begun) +
                           " on the GPU, which has not ended before its deadline";
  for (int rank = 0; rank < peer_status_->nranks(); ++rank) {
    if (rank == peer_status_->rank()) continue;
    const PeerStatusPage::Seen seen = peer_status_->look(rank);
    if (seen.begun >= begun) continue;
    return {TUTTI_TIMEOUT,
            text + "; " + rank_name(rank) + " has not begun it" +
                (seen.begun == 0 ? ", nor any other"
                                 : "; its last is call " + std::to_string(seen.begun)),
            rank, begun};
  }
  return {TUTTI_TIMEOUT, text, -1, begun};
}

Status DeviceCalls::mismatch() const {
  const device::Report& report = arena_->report();
  const int rank = int(report.rank);
  std::string own = describe(report.own), theirs = describe(report.theirs);
  if (own == theirs) theirs += ", by another path";
  return {TUTTI_MISMATCH,
          rank_name(peer_status_->rank()) + " makes " + own + " on the GPU, " + rank_name(rank) +
              " " + theirs,
          rank, read(report.begun)};
}

// ---------------------------------------------------------------- memory

Status DeviceCalls::add_memory(Exchange& exchange, bool make, void* address, size_t bytes,
                               uint64_t deadline_ns, void** out) {
  const Driver::Current current(driver_, setup_.device);
  Status ready = current.status();
  if (ready.ok() && !make) {
    const device::Pointed pointed = driver_.classify(address);
    if (pointed.kind != TUTTI_MEMORY_DEVICE || pointed.device != setup_.device) {
      ready = {TUTTI_INVALID, "the memory is not of GPU " + std::to_string(setup_.device) +
                                  ", where the " + "communicator is"};
    }
  }
  TUTTI_TRY(agree(exchange, ready, deadline_ns));
  Address made = address_of(address);
  if (arena_ != nullptr) {
    TUTTI_TRY(arena_->add(exchange, make, made, bytes, deadline_ns, &made));
  } else if (make) {
    ready = driver_.allocate(bytes, &made);
    if (ready.ok()) unshared_.push_back(made);
    TUTTI_TRY(agree(exchange, ready, deadline_ns));
  }
  *out = pointer_to(made);
  return {};
}

bool DeviceCalls::remove_memory(const void* address) {
  const Driver::Current current(driver_, setup_.device);
  if (arena_ != nullptr) return arena_->remove(address_of(address));
  const auto found = std::find(unshared_.begin(), unshared_.end(), address_of(address));
  if (found == unshared_.end()) return driver_.classify(address).kind == TUTTI_MEMORY_DEVICE;
  driver_.release(*found);
  unshared_.erase(found);
  return true;
}

}  // namespace tutti
