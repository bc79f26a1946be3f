// The process's driver, its GPUs, and which one is current.
#include "lib/device/driver.h"

#include <cstring>

#include "lib/device/driver_parts.h"

namespace tutti::device {

Status Driver::Device::describe(const Functions& f) {
  char name[256] = {};
  TUTTI_TRY(f.check(f.cuDeviceGetName(name, sizeof(name) - 1, handle), "cuDeviceGetName"));
  info.name = name;
  CUuuid identity{};
  TUTTI_TRY(f.check(f.uuid(&identity, handle), "cuDeviceGetUuid"));
  std::memcpy(info.uuid.data(), identity.bytes, info.uuid.size());
  TUTTI_TRY(f.check(f.cuDeviceTotalMem(&info.bytes, handle), "cuDeviceTotalMem"));
  int waits = 0, flushes = 0, ordering = 0;
  const std::pair<CUdevice_attribute, int*> attributes[] = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info.multiprocessors},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info.major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info.minor},
      // With the functions loaded here, a GPU that waits for 64-bit words also waits for 32-bit
      // ones.
      {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, &waits},
      {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, &flushes},
      {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, &ordering}};
  for (const auto& [attribute, value] : attributes) {
    TUTTI_TRY(f.check(f.cuDeviceGetAttribute(value, attribute, handle), "cuDeviceGetAttribute"));
  }
  info.waits_in_streams = waits != 0;
  info.flushes_remote_writes = flushes != 0;
  info.orders_remote_writes = ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
  return {};
}

// Makes its context, if there is none yet, and makes it current in this thread.
Status Driver::Device::open(const Functions& f) {
  const std::lock_guard lock(mutex);
  if (context != nullptr) {
    return f.check(f.cuCtxPushCurrent(context), "cuCtxPushCurrent");
  }
  CUcontext made = nullptr;
  TUTTI_TRY(f.check(f.cuDevicePrimaryCtxRetain(&made, handle), "cuDevicePrimaryCtxRetain",
                    [this] { return "of GPU " + std::to_string(handle); }));
  TUTTI_TRY(f.check(f.cuCtxPushCurrent(made), "cuCtxPushCurrent"));
  const Status ready = open_streams(f);
  if (ready.ok()) {
    context = made;
  } else {
    f.cuCtxPopCurrent(&made);
  }
  return ready;
}

Status Driver::Device::open_streams(const Functions& f) {
  int least = 0, most = 0;
  TUTTI_TRY(f.check(f.cuCtxGetStreamPriorityRange(&least, &most), "cuCtxGetStreamPriorityRange"));
  for (const auto& [stream, priority] : {std::pair{&copies, least}, {&urgent, most}}) {
    if (*stream != nullptr) continue;
    TUTTI_TRY(f.check(f.cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, priority),
                      "cuStreamCreateWithPriority"));
  }
  return {};
}

Driver::Driver() : functions_(std::make_unique<Functions>()) {}
Driver::~Driver() = default;

Status Driver::get(Driver** out) {
  struct Loaded {
    std::unique_ptr<Driver, void (*)(Driver*)> driver{nullptr, [](Driver* old) { delete old; }};
    Status status;
  };
  // Never destroyed: threads may use it until the process ends.
  static const Loaded& loaded = *[] {
    auto* const made = new Loaded;
    made->driver.reset(new Driver);
    made->status = made->driver->load();
    return made;
  }();
  TUTTI_TRY(Status(loaded.status));
  *out = loaded.driver.get();
  return {};
}

Status Driver::load() {
  Functions& f = *functions_;
  TUTTI_TRY(f.load());
  if (const Status started = f.check(f.cuInit(0), "cuInit"); !started.ok()) {
    return {TUTTI_UNSUPPORTED, started.text()};
  }
  TUTTI_TRY(f.check(f.cuDriverGetVersion(&version_), "cuDriverGetVersion"));
  TUTTI_TRY(f.check(f.cuDeviceGetCount(&devices_), "cuDeviceGetCount"));
  if (devices_ == 0) return {TUTTI_UNSUPPORTED, "the driver finds no GPU"};
  device_ = std::make_unique<Device[]>(size_t(devices_));
  for (int number = 0; number < devices_; ++number) {
    Device& device = device_[size_t(number)];
    TUTTI_TRY(f.check(f.cuDeviceGet(&device.handle, number), "cuDeviceGet"));
    TUTTI_TRY(device.describe(f));
  }
  return {};
}

Status Driver::number(int device) const {
  if (device >= 0 && device < devices_) return {};
  return {TUTTI_INVALID, "there is no GPU " + std::to_string(device) + ": they are numbered 0 to " +
                             std::to_string(devices_ - 1)};
}

Status Driver::info(int device, Info* out) {
  TUTTI_TRY(number(device));
  *out = device_[size_t(device)].info;
  return {};
}

int Driver::current() const {
  CUdevice device = -1;
  return functions_->cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

Status Driver::enter(int device) {
  TUTTI_TRY(number(device));
  return device_[size_t(device)].open(*functions_);
}

Status Driver::current_device(Device** out) {
  CUdevice number = -1;
  TUTTI_TRY(functions_->check(functions_->cuCtxGetDevice(&number), "cuCtxGetDevice"));
  *out = &device_[size_t(number)];
  return {};
}

Driver::Current::Current(Driver& driver, int device)
    : driver_(driver), status_(driver.enter(device)) {
  if (!status_.ok()) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver.functions_->cuThreadExchangeStreamCaptureMode(&mode);
  capture_mode_ = mode;
}

Driver::Current::~Current() {
  if (!status_.ok()) return;
  const Functions& f = *driver_.functions_;
  auto mode = CUstreamCaptureMode(capture_mode_);
  f.cuThreadExchangeStreamCaptureMode(&mode);
  CUcontext popped = nullptr;
  f.cuCtxPopCurrent(&popped);
}

}  // namespace tutti::device
