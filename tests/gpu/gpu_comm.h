// What tests of calls on GPU memory share: memory and streams, of GPU 0 unless a test says
// otherwise, and communicators on it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/device/driver.h"
#include "tests/gpu/child.h"
#include "tests/support/processes.h"
#include "tests/support/thread_comm.h"
#include "tutti/tutti.h"

namespace tutti::testing {

inline device::Driver& gpu_driver() {
  device::Driver* driver = nullptr;
  const Status got = device::Driver::get(&driver);
  if (!got.ok()) {
    fprintf(stderr, "%s\n", got.text().c_str());
    abort();
  }
  return *driver;
}

inline void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.text(); }

inline void* pointer_to(device::Address address) { return reinterpret_cast<void*>(address); }

// Where this thread's memory and streams are.
inline thread_local int this_gpu = 0;

// Memory of this_gpu, `offset` bytes into an allocation of its own.
class GpuBuffer {
 public:
  explicit GpuBuffer(size_t bytes, size_t offset = 0) : offset_(offset) {
    const device::Driver::Current current(gpu_driver(), this_gpu);
    expect_ok(gpu_driver().allocate(bytes + offset + 1, &memory_));
  }
  ~GpuBuffer() {
    const device::Driver::Current current(gpu_driver(), this_gpu);
    gpu_driver().release(memory_);
  }
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;
  std::byte* get() const { return static_cast<std::byte*>(pointer_to(memory_ + offset_)); }
  void* allocation() const { return pointer_to(memory_); }

 private:
  device::Address memory_ = 0;
  size_t offset_;
};

inline void copy_gpu(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const device::Driver::Current current(gpu_driver(), this_gpu);
  expect_ok(gpu_driver().copy(to, from, bytes));
}
template <class T>
std::vector<T> from_gpu(const void* at, size_t count) {
  std::vector<T> values(count);
  copy_gpu(values.data(), at, count * sizeof(T));
  return values;
}
template <class T>
void to_gpu(void* at, const std::vector<T>& values) {
  copy_gpu(at, values.data(), values.size() * sizeof(T));
}

class GpuStream {
 public:
  GpuStream() {
    const device::Driver::Current current(gpu_driver(), this_gpu);
    expect_ok(gpu_driver().make_stream(&stream_));
    expect_ok(gpu_driver().make_event(&event_));
  }
  ~GpuStream() {
    const device::Driver::Current current(gpu_driver(), this_gpu);
    gpu_driver().release_event(event_);
    gpu_driver().release_stream(stream_);
  }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  operator device::Stream() const { return stream_; }

  // Until all that it holds has ended; false after so long.
  bool wait(int64_t most_ms = 20'000) const { return wait_for(stream_, most_ms); }
  // Of any stream.
  bool wait_for(device::Stream stream, int64_t most_ms = 20'000) const {
    const device::Driver::Current current(gpu_driver(), this_gpu);
    expect_ok(gpu_driver().record(event_, stream));
    const uint64_t deadline_ns = deadline_after_ms(most_ms);
    for (bool ended = false; now_ns() < deadline_ns;) {
      expect_ok(gpu_driver().ended(event_, &ended));
      if (ended) return true;
      usleep(50);
    }
    return false;
  }

 private:
  device::Stream stream_ = nullptr;
  device::Event event_ = nullptr;
};

// As on_comm(), with threads of a process of their own that are ranks on GPU 0.
inline void on_gpu_threads(int nranks, const std::function<void(int, tutti_comm)>& body,
                           int64_t timeout_ms = 20'000) {
  // A stream that waits holds up no other: see tutti.h.
  in_child({{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}}, [&] {
    // The test has a driver beside the library's; its buffers come and go while others' calls wait.
    gpu_driver().keep_released_memory(0);
    tutti_unique_id id{};
    ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK) << tutti_last_error();
    on_threads(nranks, [&](int rank) {
      tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
      config.timeout_ms = timeout_ms;
      config.setup_ms = 20'000;
      config.device = "cuda:0";
      tutti_comm comm = nullptr;
      ASSERT_EQ(tutti_comm_create_from_id(&id, rank, nranks, &config, &comm), TUTTI_OK)
          << tutti_last_error();
      body(rank, comm);
      ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK) << tutti_last_error();
    });
  });
}

// As start(), on GPU 0. A body's failed expectations become its report.
inline std::vector<Child> start_on_gpu(int nranks,
                                       const std::function<Report(int, tutti_comm)>& body) {
  setenv("TUTTI_DEVICE", "cuda:0", 1);
  std::vector<Child> children = start(nranks, "shm", body);
  unsetenv("TUTTI_DEVICE");
  return children;
}
// All must come to a good end.
inline void on_gpu_processes(int nranks, const std::function<void(int, tutti_comm)>& body) {
  const std::vector<Child> children = start_on_gpu(nranks, [&](int rank, tutti_comm comm) {
    alarm(std::max(100U, child_seconds()));
    body(rank, comm);
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    Report report;
    report.status = TUTTI_OK;
    const ::testing::TestResult& result = *info->result();
    for (int i = 0; i < result.total_part_count() && report.status == TUTTI_OK; ++i) {
      const ::testing::TestPartResult& part = result.GetTestPartResult(i);
      if (!part.failed()) continue;
      report.status = TUTTI_INTERNAL;
      snprintf(report.text, sizeof(report.text), "%s", part.message());
    }
    return report;
  });
  for (size_t rank = 0; rank < children.size(); ++rank) {
    Report report;
    EXPECT_TRUE(finish(children[rank], &report)) << "rank " << rank << " ended without a word";
    EXPECT_EQ(report.status, TUTTI_OK) << "rank " << rank << ": " << report.text;
  }
}

}  // namespace tutti::testing
