// A rank's GPU as a CUDA program sees it: memory, a stream, and waiting for it. Besides micro/ the
// one part of the benchmark that looks into the library: at its door to CUDA, which is loaded at
// run time.
#pragma once

#include <chrono>
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

double us_since(std::chrono::steady_clock::time_point begin);

// The one that a rank takes: rank / `ranks_a_gpu`, or where that is 0, ranks spread over the GPUs.
// Throws BadInput where there are too few.
int gpu_of_rank(int rank, int nranks, int ranks_a_gpu, int gpus);

// How many there are. Throws BadInput with the driver's words where there is none.
int count_gpus();

// Current in the thread that made it, which alone may use it.
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
  // Until all that was enqueued has ended. Throws Failure after a minute.
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

// Enqueues something again and again and waits for it: call by call, or captured into a graph, all
// calls of a batch at once, that is replayed.
class Batches {
 public:
  // More would fill the queue of a GPU, which makes the thread that enqueues wait within the
  // driver.
  static constexpr size_t most_calls = 32;

  Batches(const Gpu& gpu, bool graph, std::function<void()> enqueue)
      : gpu_(gpu), graph_(graph), enqueue_(std::move(enqueue)) {}
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  void run(size_t calls);
  // Of a call, on the host: median over batches; 0 before the first one.
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
