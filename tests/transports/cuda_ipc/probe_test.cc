// What the library takes for granted of a GPU and its driver, asked one by one, before anything is
// made of it: each answer is a line. A failure is something that the library cannot do without.
#include <cuda.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include "lib/device/kernels/images.h"
#include "tests/device/gpu.h"
#include "tests/gpu/child.h"
#include "tests/transports/cuda_ipc/probe.h"

namespace tutti::device {
namespace {

using testing::at;
using testing::cuda_function;
using testing::Gpu;
using testing::in_child;
using testing::make_mapped;
using testing::say;
using namespace std::chrono_literals;

constexpr size_t some_bytes = 4096;
constexpr auto patience = 300ms;

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Flags in memory of the host: whatever the GPU is stuck with, the host can let it go on.
class HostFlags {
 public:
  explicit HostFlags(const Gpu& gpu) {
    void* memory = nullptr;
    EXPECT_TRUE(gpu->allocate_pinned(some_bytes, &memory, &address_).ok());
    words_ = static_cast<uint32_t*>(memory);
    std::memset(words_, 0, some_bytes);
  }
  Address at(size_t i) const { return address_ + i * sizeof(FlagWord); }
  void set(size_t i) {
    __atomic_store_n(words_ + i * sizeof(FlagWord) / 4, flag_set, __ATOMIC_SEQ_CST);
  }
  void set_all() {
    for (size_t i = 0; i < count; ++i) set(i);
  }
  static constexpr size_t count = some_bytes / sizeof(FlagWord);

 private:
  uint32_t* words_ = nullptr;
  Address address_ = 0;
};

// A kernel that does nothing.
struct Nothing {
  explicit Nothing(const Gpu& gpu) : board(gpu.memory(sizeof(Board))) {
    EXPECT_TRUE(gpu->fill(board, 0, sizeof(Board)).ok());
    const Status found = gpu->kernel("tutti_empty", &kernel);
    EXPECT_TRUE(found.ok()) << found.text();
    common.own = static_cast<Board*>(at(board));
  }
  Status launch(const Gpu& gpu, Stream stream) const {
    return gpu->launch(kernel, 1, 32, &common, sizeof(common), stream);
  }
  Address board;
  Kernel kernel = nullptr;
  Common common{};
};

// Something done in a thread of its own, so that one sees whether it returns.
class Attempt {
 public:
  Attempt(const Gpu& gpu, const std::function<void()>& work)
      : thread_([&gpu, work, this] {
          const Driver::Current here(*gpu.driver, 0);
          work();
          done_.set_value();
        }) {}
  ~Attempt() { thread_.join(); }
  bool returns(std::chrono::milliseconds within = patience) {
    return future_.wait_for(within) == std::future_status::ready;
  }

 private:
  std::promise<void> done_;
  std::future<void> future_ = done_.get_future();
  std::thread thread_;
};

bool ends(const Gpu& gpu, Stream stream) { return gpu.drained(stream, patience.count()); }

TEST(Probe, Facts) {
  in_child([] {
    const auto begun = std::chrono::steady_clock::now();
    Gpu gpu;
    const double opened = ms_since(begun);
    Nothing nothing(gpu);
    const double loaded = ms_since(begun);
    ASSERT_TRUE(nothing.launch(gpu, nullptr).ok());
    EXPECT_TRUE(gpu.drained(nullptr));
    Info info;
    ASSERT_TRUE(gpu->info(0, &info).ok());
    say("%s, %d.%d, %d multiprocessors, driver of CUDA %d", info.name.c_str(), info.major,
        info.minor, info.multiprocessors, gpu->version());
    say("a context %.0f ms, all kernels %.0f ms, the first launch %.0f ms", opened, loaded - opened,
        ms_since(begun) - loaded);
    EXPECT_TRUE(info.waits_in_streams);
    const std::pair<const char*, int> attributes[] = {
        {"compute mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
        {"copy engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
        {"kernels side by side", CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
        {"remote writes flushed", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES},
        {"kernels reach pageable memory", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
        {"atomics with the host", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
        {"descriptors of memory", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}};
    const auto ask = cuda_function<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute");
    for (const auto& [name, attribute] : attributes) {
      int value = -1;
      const CUresult asked = ask(&value, CUdevice_attribute(attribute), 0);
      say("%s: %d (result %d)", name, value, int(asked));
    }
    std::string scope = "none";
    std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
    say("ptrace scope %s, user %d", scope.c_str(), int(geteuid()));
  });
}

TEST(Probe, StreamsWaitForWordsOfTheHost) {
  in_child([] {
    Gpu gpu;
    HostFlags flags(gpu);
    const Stream stream = gpu.stream();
    const Address waited[] = {flags.at(0), flags.at(1)};
    const Status enqueued = gpu->wait_flags(stream, waited);
    ASSERT_TRUE(enqueued.ok()) << enqueued.text();
    flags.set(0);
    EXPECT_FALSE(gpu.drained(stream, 50));
    flags.set(1);
    EXPECT_TRUE(ends(gpu, stream));
  });
}

// In a graph, one branch waits for what only the other one sets.
TEST(Probe, WaitsAreCapturedAndBranchesRunSideBySide) {
  in_child([] {
    Gpu gpu;
    HostFlags flags(gpu);
    Nothing nothing(gpu);
    nothing.common.boards[0] = nothing.common.own;
    nothing.common.set[0] = {ready_1, 1};
    const Address set =
        nothing.board + offsetof(Board, flags) + uint64_t{ready_1} * most_ranks * sizeof(FlagWord);
    const Stream stream = gpu.stream(), side = gpu.stream();
    Event forked = nullptr, joined = nullptr;
    ASSERT_TRUE(gpu->make_event(&forked).ok() && gpu->make_event(&joined).ok());
    ASSERT_TRUE(gpu->begin_capture(stream).ok());
    ASSERT_TRUE(gpu->record(forked, stream).ok() && gpu->wait_event(side, forked).ok());
    const Status captured = gpu->wait_flags(stream, {&set, 1});
    EXPECT_TRUE(captured.ok()) << captured.text();
    ASSERT_TRUE(nothing.launch(gpu, side).ok());
    ASSERT_TRUE(gpu->record(joined, side).ok() && gpu->wait_event(stream, joined).ok());
    Graph graph = nullptr;
    const Status made = gpu->end_capture(stream, &graph);
    ASSERT_TRUE(made.ok()) << made.text();
    for (int turn = 0; turn < 3; ++turn) {
      gpu.set_word(set, 0);
      ASSERT_TRUE(gpu->launch_graph(graph, stream).ok());
      const bool ended = ends(gpu, stream);
      say("graph, turn %d: the branches %s", turn, ended ? "run side by side" : "do not");
      EXPECT_TRUE(ended);
      if (ended) continue;
      gpu.set_word(set, flag_set);
      break;
    }
    EXPECT_TRUE(gpu.drained(stream));
    gpu->release_graph(graph);
  });
}

// How many streams may wait until another one does not get on.
void probe_queues(const char* connections) {
  Gpu gpu;
  HostFlags flags(gpu);
  Nothing nothing(gpu);
  const Address word = gpu.memory(some_bytes);
  ASSERT_TRUE(gpu->fill(word, 0, some_bytes).ok());
  constexpr size_t most = 48;
  const Stream other = gpu.stream();
  size_t kernels = most, copies = most, writes = most;
  for (size_t waiting = 1; waiting <= most; ++waiting) {
    const Stream stream = gpu.stream();
    const Address flag = flags.at(waiting);
    ASSERT_TRUE(gpu->wait_flags(stream, {&flag, 1}).ok());
    if (kernels == most) {
      ASSERT_TRUE(nothing.launch(gpu, other).ok());
      if (!ends(gpu, other)) kernels = waiting;
    }
    if (copies == most) {
      Attempt attempt(gpu, [&] { gpu.set_word(word + 4, uint32_t(waiting)); });
      if (!attempt.returns()) {
        copies = waiting;
        flags.set_all();
        break;
      }
    }
    ASSERT_TRUE(gpu->write_words({&word, 1}, uint32_t(waiting)).ok());
    if (gpu.word(word) != waiting) std::this_thread::sleep_for(patience);
    if (writes == most && gpu.word(word) != waiting) writes = waiting;
  }
  say("%s queues: with so many streams that wait (%zu: none) stops another's kernel: %zu, copies: "
      "%zu, writes of words: %zu",
      connections, most, kernels, copies, writes);
  EXPECT_EQ(writes, most);
  flags.set_all();
}

TEST(Probe, QueuesAsTheyAre) {
  in_child([] { probe_queues("the driver's own number of"); });
}
TEST(Probe, QueuesWhereThereAreMany) {
  in_child({{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}}, [] { probe_queues("32"); });
}

// Copies behind waits are in the queues of engines that copy.
TEST(Probe, CopiesBehindWaits) {
  in_child({{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}}, [] {
    Gpu gpu;
    HostFlags flags(gpu);
    Nothing nothing(gpu);
    constexpr size_t bytes = 1 << 20, streams = 12;
    void* pinned = nullptr;
    Address unused = 0;
    ASSERT_TRUE(gpu->allocate_pinned((streams + 1) * bytes, &pinned, &unused).ok());
    const Address memory = gpu.memory((streams + 1) * bytes), word = gpu.memory(some_bytes);
    auto* host = static_cast<std::byte*>(pinned);
    ASSERT_TRUE(gpu->fill(word, 0, some_bytes).ok());
    for (size_t i = 0; i < streams; ++i) {
      const Stream stream = gpu.stream();
      const Address flag = flags.at(i);
      ASSERT_TRUE(gpu->wait_flags(stream, {&flag, 1}).ok());
      const size_t own = i * bytes;
      ASSERT_TRUE(gpu->copy_on(stream, at(memory + own), host + own, bytes).ok());
      ASSERT_TRUE(gpu->copy_on(stream, host + own, at(memory + own), bytes).ok());
    }
    const Stream stream = gpu.stream();
    ASSERT_TRUE(nothing.launch(gpu, stream).ok());
    const bool kernels = ends(gpu, stream);
    constexpr size_t last_part = streams * bytes;
    ASSERT_TRUE(gpu->copy_on(stream, at(memory + last_part), host + last_part, bytes).ok());
    const bool copies = ends(gpu, stream);
    const Stream last = gpu.stream();
    ASSERT_TRUE(gpu->wait_flags(last, {&word, 1}).ok());
    ASSERT_TRUE(gpu->write_words({&word, 1}, flag_over).ok());
    const bool writes = ends(gpu, last);
    say("beside %zu streams with copies behind waits: kernels %s, copies %s, writes of words %s",
        streams, kernels ? "run" : "STOP", copies ? "run" : "STOP", writes ? "run" : "STOP");
    EXPECT_TRUE(writes);
    flags.set_all();
  });
}

// A stream takes only so many kernels; who launches more waits in the driver. Others must not.
TEST(Probe, AFullQueueHoldsUpItsOwnThreadOnly) {
  in_child([] {
    Gpu gpu;
    HostFlags flags(gpu);
    Nothing nothing(gpu);
    const Address word = gpu.memory(some_bytes), flag = flags.at(0);
    ASSERT_TRUE(gpu->fill(word, 0, some_bytes).ok());
    const Stream stream = gpu.stream(), other = gpu.stream();
    ASSERT_TRUE(gpu->wait_flags(stream, {&flag, 1}).ok());
    std::atomic<int> launched{0};
    Attempt filling(gpu, [&] {
      for (int i = 0; i < 5000; ++i, ++launched) EXPECT_TRUE(nothing.launch(gpu, stream).ok());
    });
    const bool all = filling.returns(1000ms);
    const int taken = launched.load();
    Attempt writing(gpu, [&] { EXPECT_TRUE(gpu->write_words({&word, 1}, flag_over).ok()); });
    const bool written = writing.returns(1000ms);
    Attempt launching(gpu, [&] { EXPECT_TRUE(nothing.launch(gpu, other).ok()); });
    const bool elsewhere = launching.returns();
    say("a stream that waits takes %d kernels%s; meanwhile writes of words %s, other launches %s",
        taken, all ? " and more" : "", written ? "return" : "WAIT", elsewhere ? "return" : "WAIT");
    EXPECT_TRUE(written);
    flags.set_all();
  });
}

// While a stream waits: what returns, and what does so only when the stream has come to rest.
TEST(Probe, CallsThatWaitForStreams) {
  in_child([] {
    Gpu gpu;
    HostFlags flags(gpu);
    Nothing nothing(gpu);
    const Stream stream = gpu.stream(), other = gpu.stream(), third = gpu.stream();
    constexpr size_t large = 64 << 20;
    Address small_made = 0, large_made = 0, pinned_address = 0;
    void *pinned = nullptr, *first_pinned = nullptr;
    ASSERT_TRUE(gpu->allocate_pinned(some_bytes, &first_pinned, &pinned_address).ok());
    const Address small_memory = gpu.memory(some_bytes), large_memory = gpu.memory(large);
    const Address mapped = make_mapped(size_t(2) << 20);
    Event event = nullptr;
    Graph graph = nullptr;
    Stream new_stream = nullptr;
    CUmodule module = nullptr;
    std::vector<char> bytes(1 << 20);
    size_t turn = 0;
    const auto probe = [&](const char* name, bool must_return, const std::function<void()>& work) {
      const Address flag = flags.at(turn);
      ASSERT_TRUE(gpu->wait_flags(stream, {&flag, 1}).ok());
      Attempt attempt(gpu, work);
      const bool returned = attempt.returns();
      say("beside a stream that waits: %s %s", name, returned ? "returns" : "WAITS");
      if (must_return) {
        EXPECT_TRUE(returned) << name;
      }
      flags.set(turn++);
    };
    probe("a small cuMemAlloc", true,
          [&] { EXPECT_TRUE(gpu->allocate(some_bytes, &small_made).ok()); });
    probe("a large cuMemAlloc", true, [&] { EXPECT_TRUE(gpu->allocate(large, &large_made).ok()); });
    probe("cuMemHostAlloc", true,
          [&] { EXPECT_TRUE(gpu->allocate_pinned(large, &pinned, &pinned_address).ok()); });
    probe("cuStreamCreate", true, [&] { EXPECT_TRUE(gpu->make_stream(&new_stream).ok()); });
    probe("cuEventCreate", true, [&] { EXPECT_TRUE(gpu->make_event(&event).ok()); });
    probe("a launch", true, [&] { EXPECT_TRUE(nothing.launch(gpu, other).ok()); });
    probe("a copy of 1 MiB to the GPU", true,
          [&] { EXPECT_TRUE(gpu->copy(at(large_memory), bytes.data(), bytes.size()).ok()); });
    probe("a copy of 1 MiB from the GPU", true,
          [&] { EXPECT_TRUE(gpu->copy(bytes.data(), at(large_memory), bytes.size()).ok()); });
    probe("capturing a graph", true, [&] {
      EXPECT_TRUE(gpu->begin_capture(third).ok());
      EXPECT_TRUE(nothing.launch(gpu, third).ok());
      EXPECT_TRUE(gpu->end_capture(third, &graph).ok());
    });
    probe("launching it", true, [&] { EXPECT_TRUE(gpu->launch_graph(graph, third).ok()); });
    probe("cuGraphExecDestroy", true, [&] { gpu->release_graph(graph); });
    probe("cuEventDestroy", true, [&] { gpu->release_event(event); });
    probe("cuStreamDestroy", true, [&] { gpu->release_stream(new_stream); });
    probe("cuModuleLoadData", false, [&] {
      if (kernel_images().empty()) return;
      const auto load = cuda_function<decltype(cuModuleLoadData)>("cuModuleLoadData");
      EXPECT_EQ(load(&module, kernel_images()[0].data()), CUDA_SUCCESS);
    });
    probe("a small cuMemFree", false, [&] { gpu->release(small_memory); });
    probe("a large cuMemFree", false, [&] { gpu->release(large_memory); });
    probe("cuMemFreeHost", false, [&] { gpu->release_pinned(first_pinned); });
    probe("cuMemUnmap", false,
          [&] { cuda_function<decltype(cuMemUnmap)>("cuMemUnmap")(mapped, size_t(2) << 20); });
    EXPECT_TRUE(gpu.drained(stream));
  });
}

}  // namespace
}  // namespace tutti::device
