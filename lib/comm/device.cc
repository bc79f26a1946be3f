// A communicator's calls on memory of its GPU: those that are enqueued, and blocking ones.
#include <mutex>

#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/comm/group_exchange.h"
#include "lib/control/agree.h"
#include "lib/gpu/gpu_front.h"
#include "transports/registry.h"

namespace tutti {

namespace {

Status no_device() { return {TUTTI_UNSUPPORTED, "the communicator was made without a device"}; }

// A communicator that runs slices, behind the interface that lib/gpu uses.
class SliceCommunicator final : public SliceHost {
 public:
  explicit SliceCommunicator(std::unique_ptr<Communicator> made) : made_(std::move(made)) {}
  int rank() const override { return made_->rank(); }
  int nranks() const override { return made_->nranks(); }
  bool can_move(const CallKey& key) const override { return made_->can_move(key); }
  void claim() override { made_->claim(); }
  Status run_slice(const Call& call, uint64_t whole) override {
    return made_->run_slice(call, whole) == TUTTI_OK ? Status() : made_->last_error();
  }
  void abort(const Status& why) override { made_->abort(why); }

 private:
  std::unique_ptr<Communicator> made_;
};

}  // namespace

Status Communicator::open_device(Exchange& exchange, uint64_t deadline_ns) {
  CommSettings& settings = connection_.settings;
  DeviceCalls::Setup setup;
  setup.device = settings.device;
  setup.capabilities = connection_.capabilities;
  setup.timeout_ms = settings.timeout_ms;
  // What GPUs read from each other nobody checks.
  if (settings.integrity == Integrity::checksum) setup.through_host = "TUTTI_INTEGRITY is checksum";
  if (settings.devices_through_host) setup.through_host = "TUTTI_DEVICE_PATH is host";
  const auto make_hosts = [&](device::Driver& driver, int device, SliceHosts* out) {
    return make_slice_hosts(exchange, driver, device, deadline_ns, out);
  };
  TUTTI_TRY(GpuFront::open(exchange, std::move(setup), *this, make_hosts, deadline_ns, &gpu_));
  failures_.watch(gpu_.get());
  settings.device = gpu_->device();  // for communicators derived from this one, in any thread
  return {};
}

// Calls that the host makes for GPUs have a communicator apart from its own calls, because they run
// in the order of the streams.
Status Communicator::make_slice_hosts(Exchange& exchange, device::Driver& driver, int device,
                                      uint64_t deadline_ns, SliceHosts* out) {
  CommSettings settings = connection_.settings;
  settings.tuning = connection_.tuning;
  settings.tuning.measures = false;
  settings.device = CommSettings::no_device;
  settings.progress_thread = false;
  std::unique_ptr<Communicator> staged;
  TUTTI_TRY(create(std::make_unique<GroupExchange>(*this, connection_.key), settings, &staged));
  Status direct = agree(exchange, check_direct(*staged, driver, device), deadline_ns);
  out->staged = std::make_unique<SliceCommunicator>(std::move(staged));
  std::string over;
  if (direct.ok()) {
    const device::Driver::Current current(driver, device);
    settings.transports = gpu_transports();
    settings.transports_named = true;
    const bool sure = settings.ucx_device == Use::automatic;
    settings.memory = sure ? LinkMemory::gpu : LinkMemory::unknown;
    std::unique_ptr<Communicator> made;
    TUTTI_TRY(create(std::make_unique<GroupExchange>(*this, connection_.key), settings, &made));
    over = made->transport();
    out->direct = std::make_unique<SliceCommunicator>(std::move(made));
  } else if (direct.code() != TUTTI_UNSUPPORTED) {
    return direct;
  }
  if (logging()) {
    log(TUTTI_LOG_INFO, direct.ok()
                            ? "calls that only move data go from GPU to GPU by " + over +
                                  ", others through the host"
                            : "calls on memory of GPUs go through the host: " + direct.text());
  }
  return {};
}

// UNSUPPORTED, with the reason, unless a transport can move memory of this rank's GPU. If no rank
// refuses, each has a peer over that transport, so it can join any two of them.
Status Communicator::check_direct(const Communicator& staged, device::Driver& driver,
                                  int device) const {
  const auto because = [](const char* why) { return Status(TUTTI_UNSUPPORTED, why); };
  if (connection_.settings.ucx_device == Use::never) return because("TUTTI_UCX_DEVICE is never");
  if (connection_.settings.check_results) return because("TUTTI_CHECK has the host read results");
  const std::string joined = '+' + std::string(staged.transport()) + '+';
  const Transport* transport = nullptr;
  for (const std::string& name : gpu_transports()) {
    if (joined.find('+' + name + '+') != joined.npos) transport = find_transport(name);
  }
  if (transport == nullptr) return because("no transport to another rank moves memory of GPUs");
  device::Info gpu;
  TUTTI_TRY(driver.info(device, &gpu));
  if (!gpu.flushes_remote_writes && !gpu.orders_remote_writes) {
    return because("the GPU neither flushes nor orders what a network writes");
  }
  if (connection_.settings.ucx_device == Use::always) return {};
  if (connection_.settings.devices_through_host) return because("TUTTI_DEVICE_PATH is host");
  return transport->moves_gpu_memory();
}

// ---------------------------------------------------------------- calls

tutti_status Communicator::enqueue(const Call& call, void* stream) {
  enter();
  return gpu_ != nullptr ? gpu_->enqueue(call, stream) : fail(no_device());
}

tutti_status Communicator::device_status() { return gpu_ != nullptr ? gpu_->status() : TUTTI_OK; }

tutti_status Communicator::run_anywhere(const Call& call) { return gpu_->run(call); }

tutti_status Communicator::run_messages(std::span<const Message> messages, int64_t timeout_ms) {
  return gpu_ == nullptr ? run_on_host(messages, timeout_ms) : gpu_->run(messages, timeout_ms);
}

Status Communicator::check_on_host(std::initializer_list<const void*> buffers) const {
  return gpu_ != nullptr ? gpu_->check_on_host(buffers) : Status();
}

Status Communicator::plan_on_host(const CallKey& key, HostPlan* out) {
  const std::lock_guard guard(queue_.lock());  // calls that run look for plans, too
  const CallCache::Entry* const found = runner_.planner().find(key);
  if (found == nullptr) return last_error();
  out->algorithm = (*found)->choice.algorithm;
  out->premultiplies = (*found)->premultiplies;
  return {};
}

// ---------------------------------------------------------------- memory

tutti_status Communicator::mem_alloc_device(size_t bytes, void** out) {
  if (gpu_ == nullptr) return fail(no_device());
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  GroupExchange exchange(*this, connection_.key);
  Status ended = gpu_->add_memory(exchange, true, nullptr, bytes,
                                  deadline_after_ms(connection_.settings.setup_ms), out);
  return ended.ok() ? TUTTI_OK : fail(std::move(ended));
}

tutti_status Communicator::mem_register_device(void* address, size_t bytes) {
  if (gpu_ == nullptr) return fail(no_device());
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  GroupExchange exchange(*this, connection_.key);
  void* registered = nullptr;
  Status ended = gpu_->add_memory(exchange, false, address, bytes,
                                  deadline_after_ms(connection_.settings.setup_ms), &registered);
  return ended.ok() ? TUTTI_OK : fail(std::move(ended));
}

}  // namespace tutti
