// A rank's GPU as a CUDA program sees it: memory, a stream, and waiting for it. Besides micro/ the
// only part of the benchmark that uses the library's internals: its interface to the CUDA driver,
// which is loaded at run time.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/error.h"
#include "lib/device/driver.h"

namespace tutti::bench {

inline void require(const Status& status) {
  if (!status.ok()) throw Failure(status.text());
}

// The GPU of a rank: rank / `ranks_a_gpu`, or, if that is 0, ranks spread over the GPUs. Throws
// BadInput if there are too few.
int gpu_of_rank(int rank, int nranks, int ranks_a_gpu, int gpus);

// The number of GPUs. Throws BadInput with the driver's message if there is none.
int count_gpus();

// A GPU, current in the thread that made it; only that thread may use it.
class Gpu {
 public:
  explicit Gpu(int device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  device::Driver& driver() const { return driver_; }
  device::Stream stream() const { return stream_; }
  int device() const { return device_; }
  std::string name() const { return "cuda:" + std::to_string(device_); }
  // Waits until all enqueued work has ended. Throws Failure after a minute.
  void wait() const;

 private:
  device::Driver& driver_;
  int device_;
  device::Driver::Current current_;
  device::Stream stream_ = nullptr;
  device::Event event_ = nullptr;
};

// An allocation.
class GpuMemory {
 public:
  GpuMemory(const Gpu& gpu, size_t bytes) : driver_(gpu.driver()) {
    require(driver_.allocate(bytes, &address_));
  }
  ~GpuMemory() { driver_.release(address_); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  device::Address address() const { return address_; }
  void* pointer() const { return reinterpret_cast<void*>(address_); }

 private:
  device::Driver& driver_;
  device::Address address_ = 0;
};

// Enqueues batches of calls and waits for them: call by call, or all calls of a batch as one
// captured graph that is replayed.
class Batches {
 public:
  // More would fill the GPU's queue, and the enqueuing thread would block in the driver.
  static constexpr size_t most_calls = 32;

  Batches(const Gpu& gpu, bool graph, std::function<void()> enqueue)
      : gpu_(gpu), graph_(graph), enqueue_(std::move(enqueue)) {}
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  void run(size_t calls);
  // Time to enqueue a call, on the host: median over batches; 0 before the first one.
  double enqueue_us() const;

 private:
  device::Graph graph_of(size_t calls);

  const Gpu& gpu_;
  bool graph_;
  std::function<void()> enqueue_;
  std::map<size_t, device::Graph> graphs_;  // by calls
  std::vector<double> enqueue_us_;
};

}  // namespace tutti::bench
