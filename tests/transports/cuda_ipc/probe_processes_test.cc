// What the library takes for granted between processes, and in threads without a GPU; see
// probe_test.cc.
#include <cuda.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/device/gpu.h"
#include "tests/device/process_exchange.h"
#include "tests/gpu/child.h"
#include "tests/transports/cuda_ipc/probe.h"

namespace tutti::device {
namespace {

using testing::at;
using testing::cuda_function;
using testing::Gpu;
using testing::in_child;
using testing::on_processes;
using testing::say;

constexpr size_t some_bytes = 4096;

// Allocations that share a block of the driver's.
TEST(Probe, ShortMemoryIsWhatOtherProcessesOpen) {
  on_processes(2, [](Exchange& exchange) {
    Gpu gpu;
    struct Card {
      Exported exported[2];
      int pid;
    } card{};
    card.pid = getpid();
    const auto mine = uint32_t(exchange.rank() + 1);
    for (uint32_t i = 0; i < 2; ++i) {
      const Address memory = gpu.memory(some_bytes);
      gpu.set_word(memory, 100 * mine + i);
      const Status exported = gpu->export_memory(memory, &card.exported[i]);
      EXPECT_TRUE(exported.ok()) << exported.text();
    }
    std::vector<std::string> all;
    const uint64_t soon = deadline_after_ms(20'000);
    ASSERT_TRUE(
        exchange.allgather({reinterpret_cast<const char*>(&card), sizeof(card)}, soon, &all).ok());
    const int other = 1 - exchange.rank();
    Card theirs;
    std::memcpy(&theirs, all[size_t(other)].data(), sizeof(theirs));
    for (uint32_t i = 0; i < 2; ++i) {
      Address memory = 0;
      const Status opened = gpu->import_memory(theirs.exported[i], theirs.pid, &memory);
      ASSERT_TRUE(opened.ok()) << opened.text();
      const uint32_t found = gpu.word(memory), expected = 100 * uint32_t(other + 1) + i;
      say("rank %d reads %u in short memory %u of the other process, which wrote %u",
          exchange.rank(), found, i, expected);
      EXPECT_EQ(found, expected);
    }
    ASSERT_TRUE(exchange.allgather("", soon, &all).ok());
  });
}

// What mappings are shared by, between processes neither of which is the other's parent.
TEST(Probe, DescriptorsOfOtherProcesses) {
  on_processes(2, [](Exchange& exchange) {
    const int file = memfd_create("probe", MFD_CLOEXEC);
    const int card[] = {getpid(), file};
    std::vector<std::string> all;
    const uint64_t soon = deadline_after_ms(20'000);
    for (const bool allows : {false, true}) {
      if (allows) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
      ASSERT_TRUE(
          exchange.allgather({reinterpret_cast<const char*>(card), sizeof(card)}, soon, &all).ok());
      int theirs[2];
      std::memcpy(theirs, all[size_t(1 - exchange.rank())].data(), sizeof(theirs));
      const int process = int(syscall(SYS_pidfd_open, theirs[0], 0));
      const int open_error = process < 0 ? errno : 0;
      const int fetched = int(syscall(SYS_pidfd_getfd, process, theirs[1], 0));
      const int fetch_error = fetched < 0 ? errno : 0;
      const std::string path =
          "/proc/" + std::to_string(theirs[0]) + "/fd/" + std::to_string(theirs[1]);
      const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
      const int path_error = opened < 0 ? errno : 0;
      say("%s: pidfd_open %s, pidfd_getfd %s, by /proc %s",
          allows ? "as the owner allows it" : "as it is", std::strerror(open_error),
          std::strerror(fetch_error), std::strerror(path_error));
      EXPECT_EQ(path_error, 0);
      if (allows) {
        EXPECT_EQ(fetch_error, 0);
      }
      ASSERT_TRUE(exchange.allgather("", soon, &all).ok());
    }
  });
}

TEST(Probe, PointersAreClassifiedInThreadsWithoutAGpu) {
  in_child([] {
    Gpu gpu;
    const Address memory = gpu.memory(some_bytes);
    Pointed pointed;
    CUresult asked = CUDA_SUCCESS;
    std::thread([&] {
      unsigned int type = 0;
      CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
      void* value = &type;
      const auto ask = cuda_function<decltype(cuPointerGetAttributes)>("cuPointerGetAttributes");
      asked = ask(1, &attribute, &value, memory);
      pointed = gpu->classify(at(memory));
    }).join();
    say("cuPointerGetAttributes in a thread without a context: result %d", int(asked));
    EXPECT_EQ(pointed.kind, TUTTI_MEMORY_DEVICE);
  });
}

}  // namespace
}  // namespace tutti::device
