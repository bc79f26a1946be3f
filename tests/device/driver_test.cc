// The driver's functions and their sentences, on the fake libcuda.so.1.
#include "lib/device/driver.h"

#include <cuda.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "tests/device/gpu.h"
#include "tests/gpu/child.h"
#include "tests/support/fake_cuda/fake_cuda.h"

namespace tutti::device {
namespace {

using testing::at;
using testing::cuda_function;
using testing::Gpu;
using testing::in_child;
using testing::make_mapped;

constexpr size_t some_bytes = 4096;

TEST(Driver, DescribesItsGpus) {
  in_child({{"FAKE_CUDA_DEVICES", "3"}, {"FAKE_CUDA_MEMORY", "1048576"}}, [] {
    Driver* driver = nullptr;
    ASSERT_TRUE(Driver::get(&driver).ok());
    EXPECT_EQ(driver->devices(), 3);
    EXPECT_EQ(driver->version(), CUDA_VERSION);
    Info first, second;
    ASSERT_TRUE(driver->info(0, &first).ok());
    ASSERT_TRUE(driver->info(1, &second).ok());
    EXPECT_EQ(first.name, "Fake GPU");
    EXPECT_EQ(first.bytes, 1048576u);
    EXPECT_EQ(first.major, 9);
    EXPECT_TRUE(first.waits_in_streams);
    EXPECT_NE(first.uuid, second.uuid);
    const Status wrong = driver->info(3, &first);
    EXPECT_EQ(wrong.code(), TUTTI_INVALID);
    EXPECT_EQ(wrong.text(), "there is no GPU 3: they are numbered 0 to 2");
  });
}

TEST(Driver, WithoutGpusItIsUnsupported) {
  in_child({{"FAKE_CUDA_DEVICES", "0"}}, [] {
    Driver* driver = nullptr;
    const Status status = Driver::get(&driver);
    EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
    EXPECT_EQ(status.text(), "cuInit: no CUDA-capable device is detected");
  });
}

TEST(Driver, DoesNotSurviveAFork) {
  in_child([] {
    Gpu gpu;
    in_child([&gpu] {
      Address memory = 0;
      const Status status = gpu->allocate(some_bytes, &memory);
      EXPECT_EQ(status.code(), TUTTI_SYSTEM);
      EXPECT_TRUE(status.text().ends_with(": initialization error")) << status.text();
    });
  });
}

TEST(Driver, CurrentComesBack) {
  in_child({{"FAKE_CUDA_DEVICES", "2"}}, [] {
    Driver* driver = nullptr;
    ASSERT_TRUE(Driver::get(&driver).ok());
    EXPECT_EQ(driver->current(), -1);
    {
      const Driver::Current outer(*driver, 0);
      EXPECT_EQ(driver->current(), 0);
      {
        const Driver::Current inner(*driver, 1);
        EXPECT_EQ(driver->current(), 1);
        const Driver::Current none(*driver, 2);
        EXPECT_EQ(none.status().code(), TUTTI_INVALID);
        EXPECT_EQ(driver->current(), 1);
      }
      EXPECT_EQ(driver->current(), 0);
    }
    EXPECT_EQ(driver->current(), -1);
  });
}

TEST(Driver, ClassifiesMemory) {
  in_child({{"FAKE_CUDA_DEVICES", "2"}}, [] {
    Gpu gpu(1);
    const Address memory = gpu.memory(some_bytes);
    const Pointed inside = gpu->classify(at(memory + 100));
    EXPECT_EQ(inside.kind, TUTTI_MEMORY_DEVICE);
    EXPECT_EQ(inside.device, 1);
    EXPECT_EQ(inside.base, memory);
    EXPECT_EQ(inside.bytes, some_bytes);
    EXPECT_EQ(gpu->classify(at(memory + some_bytes)).kind, TUTTI_MEMORY_HOST);
    int variable = 0;
    EXPECT_EQ(gpu->classify(&variable).kind, TUTTI_MEMORY_HOST);
    EXPECT_EQ(gpu->classify(&variable).device, -1);
    EXPECT_EQ(gpu->classify(nullptr).kind, TUTTI_MEMORY_HOST);
    void* pinned = nullptr;
    Address reached = 0;
    ASSERT_TRUE(gpu->allocate_pinned(some_bytes, &pinned, &reached).ok());
    EXPECT_EQ(gpu->classify(pinned).kind, TUTTI_MEMORY_PINNED);
    EXPECT_EQ(gpu->classify(pinned).device, -1);
    gpu->release_pinned(pinned);
    CUdeviceptr managed = 0;
    ASSERT_EQ(cuda_function<decltype(cuMemAllocManaged)>("cuMemAllocManaged")(&managed, some_bytes,
                                                                              CU_MEM_ATTACH_GLOBAL),
              CUDA_SUCCESS);
    EXPECT_EQ(gpu->classify(at(managed)).kind, TUTTI_MEMORY_MANAGED);
    EXPECT_EQ(gpu->classify(at(managed)).device, 1);
    gpu->release(memory);
    EXPECT_EQ(gpu->classify(at(memory)).kind, TUTTI_MEMORY_HOST);
  });
}

TEST(Driver, ClassifiesMemoryInThreadsWithoutAGpu) {
  in_child([] {
    Gpu gpu;
    const Address memory = gpu.memory(some_bytes);
    Pointed pointed;
    std::thread([&] { pointed = gpu->classify(at(memory)); }).join();
    EXPECT_EQ(pointed.kind, TUTTI_MEMORY_DEVICE);
    EXPECT_EQ(pointed.base, memory);
  });
}

TEST(Driver, TheApiClassifiesTheSame) {
  in_child({{"FAKE_CUDA_DEVICES", "2"}}, [] {
    Gpu gpu(1);
    const Address memory = gpu.memory(some_bytes);
    tutti_memory_kind kind = TUTTI_MEMORY_HOST;
    int device = -1;
    EXPECT_EQ(tutti_memory_classify(at(memory + 1), &kind, &device), TUTTI_OK);
    EXPECT_EQ(kind, TUTTI_MEMORY_DEVICE);
    EXPECT_EQ(device, 1);
    EXPECT_EQ(tutti_memory_classify(&device, &kind, nullptr), TUTTI_OK);
    EXPECT_EQ(kind, TUTTI_MEMORY_HOST);
  });
}

TEST(Driver, MemoryThatIsNotThereIsSaidToBe) {
  in_child({{"FAKE_CUDA_MEMORY", "1000000"}}, [] {
    Gpu gpu;
    Address memory = 0;
    const Status status = gpu->allocate(1048576, &memory);
    EXPECT_EQ(status.code(), TUTTI_NO_MEMORY);
    EXPECT_EQ(status.text(), "cuMemAlloc of 1048576 bytes on GPU 0: out of memory");
    gpu->release(gpu.memory(900'000));
    gpu->release(gpu.memory(900'000));
  });
}

TEST(Driver, ErrorsNameTheFunction) {
  in_child({{"FAKE_CUDA_FAIL", "cuMemHostAlloc:1,cuEventCreate:2,cuMemAlloc:1:201"}}, [] {
    Gpu gpu;
    void* host = nullptr;
    Address memory = 0;
    Event event = nullptr;
    EXPECT_EQ(gpu->allocate_pinned(8, &host, &memory).text(),
              "cuMemHostAlloc of 8 bytes on GPU 0: out of memory");
    EXPECT_TRUE(gpu->allocate_pinned(8, &host, &memory).ok());
    EXPECT_TRUE(gpu->make_event(&event).ok());
    EXPECT_EQ(gpu->make_event(&event).text(), "cuEventCreate on GPU 0: unknown error");
    EXPECT_EQ(gpu->allocate(8, &memory).text(),
              "cuMemAlloc of 8 bytes on GPU 0: invalid device context");
  });
}

TEST(Driver, CopiesAndFills) {
  in_child([] {
    Gpu gpu;
    const Address memory = gpu.memory(some_bytes);
    std::vector<uint8_t> sent(some_bytes), got(some_bytes);
    std::iota(sent.begin(), sent.end(), uint8_t(3));
    ASSERT_TRUE(gpu->copy(at(memory), sent.data(), some_bytes).ok());
    ASSERT_TRUE(gpu->copy(got.data(), at(memory), some_bytes).ok());
    EXPECT_EQ(got, sent);
    ASSERT_TRUE(gpu->fill(memory + 1, 9, some_bytes - 1).ok());
    ASSERT_TRUE(gpu->copy(got.data(), at(memory), some_bytes).ok());
    EXPECT_EQ(got[0], sent[0]);
    EXPECT_EQ(got[1], 9);
    EXPECT_EQ(got.back(), 9);
    if (!driver_is_fake()) return;  // others may take what they do not know for the host's
    EXPECT_EQ(gpu->copy(at(memory), sent.data(), some_bytes + 1).code(), TUTTI_SYSTEM);
    gpu->release(memory);
    EXPECT_EQ(gpu->copy(at(memory), sent.data(), 1).text(),
              "cuMemcpyAsync of 1 bytes on GPU 0: invalid argument");
  });
}

TEST(Driver, AStreamWaitsForItsFlags) {
  in_child([] {
    Gpu gpu;
    const Stream stream = gpu.stream();
    const Address flags = gpu.memory(some_bytes);
    ASSERT_TRUE(gpu->fill(flags, 0, some_bytes).ok());
    const Address waited[] = {flags, flags + 32, flags + 64};
    ASSERT_TRUE(gpu->wait_flags(stream, waited).ok());
    gpu.set_word(flags, flag_set);
    gpu.set_word(flags + 64, flag_over);
    EXPECT_FALSE(gpu.drained(stream, 50));
    gpu.set_word(flags + 32, 4);  // neither bit
    EXPECT_FALSE(gpu.drained(stream, 50));
    gpu.set_word(flags + 32, flag_set);
    EXPECT_TRUE(gpu.drained(stream));
    EXPECT_TRUE(gpu->wait_flags(stream, {}).ok());
    int variable = 0;
    const Address wrong[] = {reinterpret_cast<Address>(&variable)};
    if (driver_is_fake()) {  // a GPU may reach all of the host's memory
      EXPECT_EQ(gpu->wait_flags(stream, wrong).text(),
                "cuStreamBatchMemOp on GPU 0: invalid argument");
    }
    gpu->release_stream(stream);
  });
}

TEST(Driver, WritesWordsBesideStreamsThatWait) {
  in_child([] {
    Gpu gpu;
    constexpr size_t words = 200;
    const Address flags = gpu.memory(words * 4);
    ASSERT_TRUE(gpu->fill(flags, 0, words * 4).ok());
    std::vector<Address> all;
    for (size_t i = 0; i < words; ++i) all.push_back(flags + i * 4);
    std::vector<Stream> streams;
    for (size_t i = 0; i < 6; ++i) {
      streams.push_back(gpu.stream());
      ASSERT_TRUE(gpu->wait_flags(streams[i], {&all[words - 1 - i], 1}).ok());
    }
    EXPECT_FALSE(gpu.drained(streams[0], 20));
    ASSERT_TRUE(gpu->write_words(all, flag_over).ok());
    for (const Stream stream : streams) EXPECT_TRUE(gpu.drained(stream));
    for (const size_t i : {size_t{0}, size_t{127}, size_t{128}, words - 1}) {
      EXPECT_EQ(gpu.word(all[i]), flag_over) << i;
    }
  });
}

// Freeing waits for all streams, those that wait for another thread among them.
TEST(Driver, KeepsMemoryThatThreadsRelease) {
  in_child([] {
    Gpu gpu;
    gpu->keep_released_memory(0);
    const Address flag = gpu.memory(some_bytes), memory = gpu.memory(some_bytes);
    ASSERT_TRUE(gpu->fill(flag, 0, some_bytes).ok());
    void *pinned = nullptr, *again = nullptr;
    Address reached = 0, reached_again = 0;
    ASSERT_TRUE(gpu->allocate_pinned(some_bytes, &pinned, &reached).ok());
    const Stream stream = gpu.stream();
    ASSERT_TRUE(gpu->wait_flags(stream, {&flag, 1}).ok());
    gpu->release(memory);
    gpu->release_pinned(pinned);
    EXPECT_EQ(gpu.memory(some_bytes - 100), memory);
    ASSERT_TRUE(gpu->allocate_pinned(some_bytes, &again, &reached_again).ok());
    EXPECT_EQ(again, pinned);
    EXPECT_EQ(reached_again, reached);
    EXPECT_NE(gpu.memory(some_bytes), memory);
    EXPECT_FALSE(gpu.drained(stream, 20));
    gpu.set_word(flag, flag_set);
    EXPECT_TRUE(gpu.drained(stream));
  });
}

TEST(Driver, FreesWhatItKeepsBeforeThereIsNoMemory) {
  in_child({{"FAKE_CUDA_MEMORY", "1000000"}}, [] {
    Gpu gpu;
    gpu->keep_released_memory(0);
    gpu->release(gpu.memory(400'000));
    gpu->release(gpu.memory(400'001));
    gpu->release(gpu.memory(900'000));
  });
}

TEST(Driver, StreamsWaitForEvents) {
  in_child([] {
    Gpu gpu;
    const Stream first = gpu.stream(), second = gpu.stream();
    const Address flag = gpu.memory(some_bytes);
    ASSERT_TRUE(gpu->fill(flag, 0, some_bytes).ok());
    Event event = nullptr;
    ASSERT_TRUE(gpu->make_event(&event).ok());
    bool ended = false;
    EXPECT_TRUE(gpu->ended(event, &ended).ok());
    EXPECT_TRUE(ended);  // never recorded
    const Address waited[] = {flag};
    ASSERT_TRUE(gpu->wait_flags(first, waited).ok());
    ASSERT_TRUE(gpu->record(event, first).ok());
    ASSERT_TRUE(gpu->wait_event(second, event).ok());
    EXPECT_TRUE(gpu->ended(event, &ended).ok());
    EXPECT_FALSE(ended);
    EXPECT_FALSE(gpu.drained(second, 50));
    EXPECT_TRUE(gpu.drained(nullptr));  // streams of tutti do not hold up the null stream
    gpu.set_word(flag, flag_set);
    EXPECT_TRUE(gpu.drained(second));
    EXPECT_TRUE(gpu.drained(first));
  });
}

TEST(Driver, TheNullStreamWaitsForBlockingStreams) {
  in_child([] {
    Gpu gpu;
    const Address flag = gpu.memory(some_bytes);
    ASSERT_TRUE(gpu->fill(flag, 0, some_bytes).ok());
    CUstream blocking = nullptr;
    ASSERT_EQ(
        cuda_function<decltype(cuStreamCreate)>("cuStreamCreate")(&blocking, CU_STREAM_DEFAULT),
        CUDA_SUCCESS);
    const Address waited[] = {flag};
    ASSERT_TRUE(gpu->wait_flags(blocking, waited).ok());
    EXPECT_FALSE(gpu.drained(nullptr, 50));
    gpu.set_word(flag, flag_set);
    EXPECT_TRUE(gpu.drained(nullptr));
    gpu.set_word(flag, 0);
    ASSERT_TRUE(gpu->wait_flags(nullptr, waited).ok());
    EXPECT_FALSE(gpu.drained(blocking, 50));
    gpu.set_word(flag, flag_set);
    EXPECT_TRUE(gpu.drained(blocking));
  });
}

CopyArguments copy_of(Address from, Address to, uint64_t bytes, Board* board, Report* report) {
  CopyArguments arguments{};
  arguments.common.own = board;
  arguments.common.boards[0] = board;
  arguments.common.report = report;
  arguments.pieces = 1;
  arguments.piece[0].from.address = from;
  arguments.piece[0].to.address = to;
  arguments.piece[0].bytes = bytes;
  return arguments;
}

// Memory for a kernel that copies, and a kernel.
struct Copying {
  explicit Copying(const Gpu& gpu)
      : from(gpu.memory(some_bytes)), to(gpu.memory(some_bytes)), board(gpu.memory(sizeof(Board))) {
    EXPECT_TRUE(gpu->fill(board, 0, sizeof(Board)).ok());
    Address reached = 0;
    EXPECT_TRUE(gpu->allocate_pinned(sizeof(Report), &report, &reached).ok());
    const Status status = gpu->kernel("tutti_copy", &kernel);
    EXPECT_TRUE(status.ok()) << status.text();
    arguments = copy_of(from, to, some_bytes, reinterpret_cast<Board*>(board),
                        reinterpret_cast<Report*>(reached));
  }
  Address from, to, board;
  void* report = nullptr;
  Kernel kernel = nullptr;
  CopyArguments arguments{};
};

TEST(Driver, RunsKernels) {
  in_child({{"FAKE_CUDA_DEVICES", "2"}}, [] {
    Gpu gpu;
    const Stream stream = gpu.stream();
    Copying copying(gpu);
    ASSERT_TRUE(gpu->fill(copying.from, 7, some_bytes).ok());
    ASSERT_TRUE(gpu->fill(copying.to, 1, some_bytes).ok());
    ASSERT_TRUE(
        gpu->launch(copying.kernel, 1, 32, &copying.arguments, sizeof(CopyArguments), stream).ok());
    copying.arguments.piece[0].from.address = 0;  // the arguments were copied
    ASSERT_TRUE(gpu.drained(stream));
    EXPECT_EQ(gpu.word(copying.to), 0x07070707u);
    Kernel again = nullptr, other = nullptr;
    ASSERT_TRUE(gpu->kernel("tutti_copy", &again).ok());
    EXPECT_EQ(again, copying.kernel);
    EXPECT_EQ(gpu->kernel("tutti_sort", &other).text(), "there is no kernel tutti_sort");
    const Driver::Current elsewhere(*gpu.driver, 1);
    ASSERT_TRUE(gpu->kernel("tutti_copy", &other).ok());
    EXPECT_NE(other, copying.kernel);
    EXPECT_EQ(gpu->launch(other, 1, 32, &copying.arguments, sizeof(CopyArguments), stream).text(),
              "cuLaunchKernel on GPU 1: invalid resource handle");
  });
}

TEST(Driver, AGraphRepeatsWhatTwoStreamsDid) {
  in_child([] {
    Gpu gpu;
    const Stream stream = gpu.stream(), side = gpu.stream();
    Copying copying(gpu);
    const Address flag = gpu.memory(some_bytes);
    ASSERT_TRUE(gpu->fill(flag, 0, some_bytes).ok());
    Event forked = nullptr, joined = nullptr;
    ASSERT_TRUE(gpu->make_event(&forked).ok() && gpu->make_event(&joined).ok());
    uint64_t capture = 0, side_capture = 0;
    ASSERT_TRUE(gpu->begin_capture(stream).ok());
    ASSERT_TRUE(gpu->record(forked, stream).ok());
    ASSERT_TRUE(gpu->wait_event(side, forked).ok());
    ASSERT_TRUE(gpu->capture_of(stream, &capture).ok());
    ASSERT_TRUE(gpu->capture_of(side, &side_capture).ok());
    EXPECT_NE(capture, 0u);
    EXPECT_EQ(capture, side_capture);
    // The stream waits for a flag that only the side sets: the lanes run side by side.
    const Address waited[] = {flag};
    ASSERT_TRUE(gpu->wait_flags(stream, waited).ok());
    ASSERT_TRUE(
        gpu->launch(copying.kernel, 1, 1, &copying.arguments, sizeof(CopyArguments), stream).ok());
    ASSERT_TRUE(gpu->copy_on(side, at(flag), at(copying.from), 4).ok());
    ASSERT_TRUE(gpu->record(joined, side).ok());
    ASSERT_TRUE(gpu->wait_event(stream, joined).ok());
    Graph graph = nullptr;
    ASSERT_TRUE(gpu->end_capture(stream, &graph).ok());
    ASSERT_TRUE(gpu->capture_of(side, &capture).ok());
    EXPECT_EQ(capture, 0u);
    EXPECT_EQ(gpu.word(flag), 0u);  // nothing ran
    for (uint32_t turn = 0; turn < 100; ++turn) {
      gpu.set_word(flag, 0);
      gpu.set_word(copying.from, turn << 2 | flag_set);
      ASSERT_TRUE(gpu->launch_graph(graph, stream).ok());
      ASSERT_TRUE(gpu.drained(stream));
      EXPECT_EQ(gpu.word(copying.to), turn << 2 | flag_set);
    }
    gpu->release_graph(graph);
  });
}

TEST(Driver, TheNullStreamIsNotUsedBesideCaptures) {
  in_child([] {
    Gpu gpu;
    CUstream blocking = nullptr;
    ASSERT_EQ(
        cuda_function<decltype(cuStreamCreate)>("cuStreamCreate")(&blocking, CU_STREAM_DEFAULT),
        CUDA_SUCCESS);
    uint64_t capture = 0;
    ASSERT_TRUE(gpu->begin_capture(blocking).ok());
    EXPECT_EQ(gpu->capture_of(nullptr, &capture).code(), TUTTI_INVALID);
    Graph graph = nullptr;
    ASSERT_TRUE(gpu->end_capture(blocking, &graph).ok());
    EXPECT_TRUE(gpu->capture_of(nullptr, &capture).ok());
    gpu->release_graph(graph);
  });
}

TEST(Driver, CapturesMustBeJoined) {
  in_child([] {
    Gpu gpu;
    const Stream stream = gpu.stream(), side = gpu.stream();
    const Address memory = gpu.memory(some_bytes);
    Event event = nullptr;
    ASSERT_TRUE(gpu->make_event(&event).ok());
    ASSERT_TRUE(gpu->begin_capture(stream).ok());
    ASSERT_TRUE(gpu->record(event, stream).ok());
    ASSERT_TRUE(gpu->wait_event(side, event).ok());
    ASSERT_TRUE(gpu->copy_on(side, at(memory), at(memory + 8), 8).ok());
    // In a capture, a thread that a Current speaks for may allocate.
    gpu->release(gpu.memory(8));
    Graph graph = nullptr;
    EXPECT_FALSE(gpu->end_capture(stream, &graph).ok());
    EXPECT_TRUE(gpu->copy_on(side, at(memory), at(memory + 8), 8).ok());
    EXPECT_TRUE(gpu.drained(side));
  });
}

// What is not allowed spoils the capture that it is about.
TEST(Driver, CapturesDoNotMixWithWhatIsNotCaptured) {
  in_child([] {
    Gpu gpu;
    const Stream stream = gpu.stream(), side = gpu.stream();
    Event event = nullptr, outside = nullptr;
    ASSERT_TRUE(gpu->make_event(&event).ok() && gpu->make_event(&outside).ok());
    ASSERT_TRUE(gpu->record(outside, side).ok());
    const auto expect_spoilt = [&] {
      uint64_t capture = 0;
      EXPECT_EQ(gpu->capture_of(stream, &capture).code(), TUTTI_INVALID);
      EXPECT_FALSE(gpu->record(event, stream).ok());
      Graph graph = nullptr;
      EXPECT_FALSE(gpu->end_capture(stream, &graph).ok());
      EXPECT_TRUE(gpu->capture_of(stream, &capture).ok());
      EXPECT_EQ(capture, 0u);
    };
    ASSERT_TRUE(gpu->begin_capture(stream).ok());
    EXPECT_FALSE(gpu->wait_event(stream, outside).ok());
    expect_spoilt();
    ASSERT_TRUE(gpu->begin_capture(stream).ok());
    ASSERT_TRUE(gpu->record(event, stream).ok());
    bool ended = false;
    EXPECT_FALSE(gpu->ended(event, &ended).ok());
    expect_spoilt();
    EXPECT_TRUE(gpu.drained(stream));
  });
}

// A process that exports memory, and one that imports it.
struct Pair {
  int to_child[2], to_parent[2];
  Pair() {
    EXPECT_EQ(pipe(to_child), 0);
    EXPECT_EQ(pipe(to_parent), 0);
  }
  template <class T>
  static void send(const int (&ends)[2], const T& value) {
    ASSERT_EQ(write(ends[1], &value, sizeof(value)), ssize_t(sizeof(value)));
  }
  template <class T>
  static bool receive(const int (&ends)[2], T* value) {
    return read(ends[0], value, sizeof(*value)) == ssize_t(sizeof(*value));
  }
};

// The child imports what the parent exports, twice, and writes into it.
void exchange_memory(bool by_descriptor) {
  constexpr size_t bytes = size_t(2) << 20;
  const Pair pipes;
  const pid_t child = fork();
  if (child == 0) {
    alarm(testing::child_seconds());
    Gpu gpu;
    Exported exported;
    if (!Pair::receive(pipes.to_child, &exported)) _exit(1);
    Address first = 0, second = 0;
    const Status opened = gpu->import_memory(exported, getppid(), &first);
    EXPECT_TRUE(opened.ok()) << opened.text();
    EXPECT_TRUE(gpu->import_memory(exported, getppid(), &second).ok());
    EXPECT_EQ(gpu.word(first + bytes - 4), 0x03030303u);
    gpu.set_word(second, 42);
    gpu->close_import(exported, second);
    EXPECT_EQ(gpu.word(first), 42u);
    gpu->close_import(exported, first);
    EXPECT_EQ(gpu->classify(at(first)).kind, TUTTI_MEMORY_HOST);
    Pair::send(pipes.to_parent, 1);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  Gpu gpu;
  const Address memory = by_descriptor ? make_mapped(bytes) : gpu.memory(bytes);
  ASSERT_TRUE(gpu->fill(memory, 3, bytes).ok());
  Exported exported;
  const Status made = gpu->export_memory(memory, &exported);
  ASSERT_TRUE(made.ok()) << made.text();
  EXPECT_EQ(exported.bytes, bytes);
  EXPECT_EQ(exported.kind == Exported::Kind::descriptor, by_descriptor);
  EXPECT_EQ(gpu->export_memory(memory + 8, &exported).code(), TUTTI_INTERNAL);
  Pair::send(pipes.to_child, exported);
  int done = 0;
  EXPECT_TRUE(Pair::receive(pipes.to_parent, &done));
  EXPECT_EQ(gpu.word(memory), 42u);
  gpu->close_export(exported);
  EXPECT_EQ(exported.fd, -1);
  if (!by_descriptor) gpu->release(memory);
  EXPECT_EQ(fake_cuda_counts_now().freed_while_imported, 0u);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Driver, MemoryOfOtherProcessesByHandle) {
  in_child([] { exchange_memory(false); });
}
TEST(Driver, MemoryOfOtherProcessesByDescriptor) {
  in_child([] { exchange_memory(true); });
}

TEST(Driver, MemoryOfADeadProcessCannotBeImported) {
  in_child([] {
    Gpu gpu;
    Exported exported;
    exported.bytes = some_bytes;
    exported.kind = Exported::Kind::descriptor;
    Address memory = 0;
    const pid_t gone = fork();
    if (gone == 0) _exit(0);
    waitpid(gone, nullptr, 0);
    const Status status = gpu->import_memory(exported, gone, &memory);
    EXPECT_TRUE(status.text().starts_with("cannot take over the descriptor of memory of process"))
        << status.text();
  });
}

TEST(Driver, OneGpuReachesAnother) {
  for (const char* const peer : {"1", "0"}) {
    in_child({{"FAKE_CUDA_DEVICES", "2"}, {"FAKE_CUDA_PEER", peer}}, [peer] {
      Gpu gpu(0), other(1);
      Info mine, theirs;
      ASSERT_TRUE(gpu->info(0, &mine).ok() && gpu->info(1, &theirs).ok());
      bool reaches = false;
      ASSERT_TRUE(gpu->reach(0, mine.uuid, &reaches).ok());
      EXPECT_TRUE(reaches);
      for (int time = 0; time < 2; ++time) {
        ASSERT_TRUE(gpu->reach(0, theirs.uuid, &reaches).ok());
        EXPECT_EQ(reaches, *peer == '1');
      }
      ASSERT_TRUE(gpu->reach(1, mine.uuid, &reaches).ok());
      EXPECT_EQ(reaches, *peer == '1');
      theirs.uuid.fill(9);  // hidden from this process
      ASSERT_TRUE(gpu->reach(0, theirs.uuid, &reaches).ok());
      EXPECT_TRUE(reaches);
    });
  }
}

}  // namespace
}  // namespace tutti::device
