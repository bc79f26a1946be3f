// What a program may do with stream-ordered calls, and what becomes of those that cannot end.
#include <gtest/gtest.h>

#include <thread>

#include "tests/gpu/gpu_comm.h"
#include "tests/support/fake_cuda/fake_cuda.h"

namespace tutti::testing {
namespace {

constexpr size_t some = 1000;

tutti_status sum_on(const GpuBuffer& in, const GpuBuffer& out, size_t count, tutti_comm comm,
                    void* stream, const tutti_call_config* config = nullptr) {
  return tutti_allreduce_on(in.get(), out.get(), count, TUTTI_INT32, TUTTI_SUM, comm, config,
                            stream);
}

TEST(Streams, OfOneCommunicatorRunItsCallsInTheirOrder) {
  on_gpu_threads(3, [](int rank, tutti_comm comm) {
    GpuStream streams[3];
    GpuBuffer a(some * 4), b(some * 4);
    to_gpu(a.get(), std::vector<int32_t>(some, rank));
    // Each takes the result of the one before, which is on another stream.
    for (int i = 0; i < 12; ++i) {
      ASSERT_EQ(sum_on(i % 2 == 0 ? a : b, i % 2 == 0 ? b : a, some, comm, streams[i % 3]),
                TUTTI_OK)
          << sentence(comm);
    }
    ASSERT_TRUE(streams[11 % 3].wait());
    int32_t expected = 3;
    for (int i = 1; i < 12; ++i) expected *= 3;
    EXPECT_EQ(from_gpu<int32_t>(a.get(), some), std::vector<int32_t>(some, expected));
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST(Streams, MayBeTheNullStreamOfAProcess) {
  on_gpu_processes(2, [](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    to_gpu(in.get(), std::vector<int32_t>(some, rank + 1));
    for (const uint32_t flags : {0u, TUTTI_CALL_UNFUSED}) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.flags = flags;
      ASSERT_EQ(sum_on(in, out, some, comm, nullptr, &config), TUTTI_OK) << sentence(comm);
      ASSERT_TRUE(stream.wait_for(nullptr));
      EXPECT_EQ(from_gpu<int32_t>(out.get(), some), std::vector<int32_t>(some, 3));
    }
  });
}

TEST(Streams, MayNotBeTheNullStreamThatThreadsShare) {
  on_gpu_threads(2, [](int, tutti_comm comm) {
    GpuBuffer in(some * 4), out(some * 4);
    for (void* const null_stream : {pointer_to(0), pointer_to(1)}) {
      EXPECT_EQ(sum_on(in, out, some, comm, null_stream), TUTTI_INVALID);
      EXPECT_NE(sentence(comm).find("each needs a stream of its own"), std::string::npos)
          << sentence(comm);
    }
  });
}

int replays() {
  const char* const wanted = getenv("TUTTI_TEST_REPLAYS");  // more, where there is a real GPU
  return wanted != nullptr ? atoi(wanted) : 100;
}

// Replayed with other data each time; `flags`: of the calls.
void replay(int rank, tutti_comm comm, uint32_t flags) {
  GpuStream stream;
  GpuBuffer a(some * 4), b(some * 4), c(some * 4);
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.flags = flags;
  ASSERT_EQ(sum_on(a, b, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
  ASSERT_TRUE(stream.wait());
  device::Driver& driver = gpu_driver();
  device::Graph graph = nullptr;
  {
    const device::Driver::Current current(driver, 0);
    expect_ok(driver.begin_capture(stream));
    ASSERT_EQ(sum_on(a, b, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(sum_on(b, c, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
    expect_ok(driver.end_capture(stream, &graph));
  }
  for (int time = 0; time < replays(); ++time) {
    to_gpu(a.get(), std::vector<int32_t>(some, rank + time));
    {
      const device::Driver::Current current(driver, 0);
      expect_ok(driver.launch_graph(graph, stream));
    }
    ASSERT_TRUE(stream.wait());
    const int32_t expected = 3 * (3 * time + 3);
    ASSERT_EQ(from_gpu<int32_t>(c.get(), some), std::vector<int32_t>(some, expected)) << time;
  }
  ASSERT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
  // Calls that are not replayed go on as before.
  ASSERT_EQ(sum_on(a, b, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
  ASSERT_TRUE(stream.wait());
  EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
  const device::Driver::Current current(driver, 0);
  driver.release_graph(graph);
}

TEST(Graphs, OfCallsCanBeReplayedWithOtherData) {
  on_gpu_threads(3, [](int rank, tutti_comm comm) { replay(rank, comm, 0); });
}
TEST(Graphs, OfSchedulesCanBeReplayedWithOtherData) {
  on_gpu_processes(3, [](int rank, tutti_comm comm) { replay(rank, comm, TUTTI_CALL_UNFUSED); });
}

TEST(Graphs, AreNotMadeOfCallsThatBlock) {
  on_gpu_threads(2, [](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer a(some * 4), b(some * 4);
    to_gpu(a.get(), std::vector<int32_t>(some, rank));
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.flags = TUTTI_CALL_UNFUSED;
    ASSERT_EQ(sum_on(a, b, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
    ASSERT_TRUE(stream.wait());
    device::Driver& driver = gpu_driver();
    device::Graph graph = nullptr;
    const device::Driver::Current current(driver, 0);
    expect_ok(driver.begin_capture(stream));
    ASSERT_EQ(sum_on(a, b, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(tutti_allreduce(a.get(), b.get(), some, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("must wait until the capture has ended"), std::string::npos)
        << sentence(comm);
    expect_ok(driver.end_capture(stream, &graph));
    EXPECT_EQ(tutti_allreduce(a.get(), b.get(), some, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(from_gpu<int32_t>(b.get(), some), std::vector<int32_t>(some, 1));
    driver.release_graph(graph);
  });
}

TEST(Calls, ThatAreRepeatedAllocateAndWaitForNothing) {
  on_gpu_processes(2, [](int, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(1 << 20), out(1 << 20);
    to_gpu(in.get(), std::vector<int32_t>(1 << 18, 1));
    for (const char* algorithm : {"auto", "ring"}) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = algorithm;
      FakeCudaCounts before{};
      for (int i = 0; i < 6; ++i) {
        if (i == 2) before = fake_cuda_counts_now();
        ASSERT_EQ(sum_on(in, out, 1 << 18, comm, stream, &config), TUTTI_OK) << sentence(comm);
      }
      const FakeCudaCounts after = fake_cuda_counts_now();
      EXPECT_EQ(after.allocations, before.allocations) << algorithm;
      EXPECT_EQ(after.created, before.created) << algorithm;
      EXPECT_EQ(after.synchronisations, before.synchronisations) << algorithm;
      if (driver_is_fake()) {
        EXPECT_GT(after.launches, before.launches) << algorithm;
      }
      ASSERT_TRUE(stream.wait());
    }
  });
}

TEST(Calls, ThatDifferAreNamedByAllRanks) {
  on_gpu_threads(3, [](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    const size_t count = rank == 1 ? 20 : 10;
    ASSERT_EQ(sum_on(in, out, count, comm, stream), TUTTI_OK) << sentence(comm);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_MISMATCH);
    const std::string text = sentence(comm);
    EXPECT_NE(text.find("allreduce of 10 int32"), std::string::npos) << text;
    EXPECT_NE(text.find("allreduce of 20 int32"), std::string::npos) << text;
    // It is over, for calls on the host too.
    EXPECT_EQ(sum_on(in, out, count, comm, stream), TUTTI_MISMATCH) << sentence(comm);
    int32_t one = 1, sum = 0;
    EXPECT_EQ(tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_MISMATCH)
        << sentence(comm);
  });
}

TEST(Calls, ThatOneRankNeverMakesEndAtTheirDeadline) {
  on_gpu_threads(3, [](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    ASSERT_EQ(sum_on(in, out, some, comm, stream), TUTTI_OK) << sentence(comm);
    ASSERT_TRUE(stream.wait());
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 300;
    if (rank != 2) {
      ASSERT_EQ(sum_on(in, out, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
      ASSERT_TRUE(stream.wait(2000));
      EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_TIMEOUT) << sentence(comm);
      EXPECT_NE(sentence(comm).find("rank 2 has not begun it; its last is call 1"),
                std::string::npos)
          << sentence(comm);
      return;
    }
    usleep(700'000);
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_TIMEOUT) << sentence(comm);
  });
}

TEST(Calls, ThatAreRefusedToOneRankAreToldToTheOthers) {
  for (const bool made_again : {false, true}) {
    on_gpu_threads(3, [made_again](int rank, tutti_comm comm) {
      GpuStream stream;
      GpuBuffer in(some * 4), out(some * 4);
      ASSERT_EQ(sum_on(in, out, some, comm, stream), TUTTI_OK) << sentence(comm);
      ASSERT_TRUE(stream.wait());
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.timeout_ms = 300;
      if (rank == 2) {
        EXPECT_EQ(tutti_allreduce_on(in.get(), out.get(), some, TUTTI_INT32,
                                     static_cast<tutti_op>(9999), comm, nullptr, stream),
                  TUTTI_INVALID);
      }
      if (made_again) {
        ASSERT_EQ(sum_on(in, out, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
        ASSERT_TRUE(stream.wait(2000));
        ASSERT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
      }
      if (rank == 2) {
        usleep(700'000);
        return;
      }
      ASSERT_EQ(sum_on(in, out, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
      ASSERT_TRUE(stream.wait(2000));
      EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_TIMEOUT) << sentence(comm);
      const bool told =
          sentence(comm).find("; rank 2 was refused a call on a stream: unknown operator 9999") !=
          std::string::npos;
      EXPECT_EQ(told, !made_again) << sentence(comm);
    });
  }
}

TEST(Calls, EndWhenTheCommunicatorIsAborted) {
  on_gpu_processes(2, [](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    if (rank == 1) {
      usleep(200'000);
      ASSERT_EQ(tutti_comm_abort(comm, "enough"), TUTTI_OK);
    } else {
      ASSERT_EQ(sum_on(in, out, some, comm, stream), TUTTI_OK) << sentence(comm);
      ASSERT_TRUE(stream.wait(1000));
    }
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_ABORTED);
    EXPECT_NE(sentence(comm).find("rank 1 called tutti_comm_abort(): enough"), std::string::npos)
        << sentence(comm);
  });
}

TEST(Calls, EndWhenARankDies) {
  for (const char* algorithm : {"auto", "ring"}) {
    const Meeting first_call;
    const std::vector<Child> children = start_on_gpu(3, [&](int rank, tutti_comm comm) {
      alarm(60);
      GpuStream stream;
      GpuBuffer in(1 << 20), out(1 << 20);
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = algorithm;
      tutti_status status = TUTTI_OK;
      for (int call = 0; status == TUTTI_OK; ++call) {
        status = sum_on(in, out, 1 << 18, comm, stream, &config);
        if (!stream.wait()) break;
        if (status == TUTTI_OK) status = tutti_comm_device_status(comm);
        if (call == 0) first_call.arrive();
        if (rank == 1) usleep(1000);
      }
      return report_of(status, comm);
    });
    first_call.wait_for(3);
    usleep(100'000);
    kill_and_expect_it_named(children, 1, 1'000'000'000);
  }
}

// Who has done its part in a call, frees its communicator and ends has not failed in it, however
// long the others still need.
TEST(Calls, GoOnWithoutARankThatHasDoneItsPartAndLeft) {
  const std::vector<Child> children = start_on_gpu(3, [&](int rank, tutti_comm comm) {
    alarm(60);
    constexpr size_t count = 1 << 20;
    GpuStream stream;
    GpuBuffer in(count * 4), out(count * 4);
    to_gpu(in.get(), std::vector<float>(count, 1));
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = "chain";  // from rank to rank
    if (rank == 2) usleep(700'000);
    tutti_status status =
        tutti_scan_on(in.get(), out.get(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, &config, stream);
    stream.wait();
    if (status == TUTTI_OK) status = tutti_comm_device_status(comm);
    if (status == TUTTI_OK && from_gpu<float>(out.get(), count) != std::vector(count, rank + 1.0F))
      status = TUTTI_CORRUPT;
    return report_of(status, comm);
  });
  for (const Child& child : children) {
    Report report;
    ASSERT_TRUE(finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

// The program asks again and again, beside the library's own thread.
TEST(Calls, AreNotTakenForLateWhereTwoThreadsLook) {
  constexpr int calls = 3000;
  on_gpu_threads(2, [](int, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    for (int i = 0; i < calls; ++i) {
      ASSERT_EQ(tutti_allreduce_on(in.get(), out.get(), some, TUTTI_INT32, TUTTI_SUM, comm, nullptr,
                                   stream),
                TUTTI_OK)
          << sentence(comm);
      for (int looks = 0; looks < 100; ++looks)
        ASSERT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
    }
    stream.wait();
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST(Calls, SayWhatIsWrongWithTheirArguments) {
  on_gpu_threads(2, [](int, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    std::vector<int32_t> host(some);
    const auto refused = [&](tutti_status status, tutti_status expected, const char* words) {
      EXPECT_EQ(status, expected);
      EXPECT_NE(sentence(comm).find(words), std::string::npos) << sentence(comm);
    };
    refused(tutti_allreduce_on(host.data(), out.get(), some, TUTTI_INT32, TUTTI_SUM, comm, nullptr,
                               stream),
            TUTTI_INVALID, "the send buffer lies in memory of the host");
    refused(tutti_broadcast_on(host.data(), some, TUTTI_INT32, 0, comm, nullptr, stream),
            TUTTI_INVALID, "the buffer lies in memory of the host");
    refused(tutti_allreduce_on(in.get(), in.get() + 4, some, TUTTI_INT32, TUTTI_SUM, comm, nullptr,
                               stream),
            TUTTI_INVALID, "overlap");
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.level = TUTTI_LEVEL_EXACT;
    refused(tutti_allreduce_on(in.get(), out.get(), some, TUTTI_FLOAT32, TUTTI_SUM, comm, &config,
                               stream),
            TUTTI_UNSUPPORTED, "there is no kernel for the level exact");
    config.level = TUTTI_LEVEL_DEFAULT;
    config.algorithm = "nonsense";
    refused(sum_on(in, out, some, comm, stream, &config), TUTTI_INVALID,
            "there is no allreduce algorithm \"nonsense\"");
    tutti_request request = nullptr;
    refused(tutti_iallreduce(in.get(), out.get(), some, TUTTI_INT32, TUTTI_SUM, comm, nullptr,
                             &request),
            TUTTI_INVALID, "call the _on form");
    // Nothing of that has done any harm.
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK);
    ASSERT_EQ(sum_on(in, out, some, comm, stream), TUTTI_OK) << sentence(comm);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK);
  });
}

TEST(Communicators, WithoutADeviceSaySo) {
  on_comm(2, "inproc", [](int, tutti_comm comm) {
    int32_t value = 0;
    EXPECT_EQ(tutti_allreduce_on(TUTTI_IN_PLACE, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr,
                                 nullptr),
              TUTTI_UNSUPPORTED);
    EXPECT_NE(sentence(comm).find("without a device"), std::string::npos) << sentence(comm);
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK);
  });
}

TEST(Communicators, HaveADeviceOnAllRanksOrOnNone) {
  in_child([] {
    tutti_unique_id id{};
    ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
    on_threads(2, [&](int rank) {
      tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
      config.device = rank == 0 ? "cuda:0" : "none";
      tutti_comm comm = nullptr;
      EXPECT_EQ(tutti_comm_create_from_id(&id, rank, 2, &config, &comm), TUTTI_MISMATCH);
      EXPECT_NE(std::string(tutti_last_error()).find("all ranks of a communicator must, or none"),
                std::string::npos)
          << tutti_last_error();
    });
  });
}

TEST(Communicators, NameGpusThatThereAre) {
  in_child([] {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.device = "cuda:7";
    tutti_unique_id id{};
    tutti_comm comm = nullptr;
    EXPECT_EQ(tutti_comm_create_from_id(&id, 0, 1, &config, &comm), TUTTI_INVALID);
    EXPECT_NE(std::string(tutti_last_error()).find("there is no GPU 7"), std::string::npos)
        << tutti_last_error();
  });
}

TEST(Communicators, ThatAreSplitHaveTheSameDevice) {
  on_gpu_threads(4, [](int rank, tutti_comm comm) {
    tutti_comm half = nullptr;
    ASSERT_EQ(tutti_comm_split(comm, rank / 2, 0, &half), TUTTI_OK) << sentence(comm);
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    to_gpu(in.get(), std::vector<int32_t>(some, rank));
    ASSERT_EQ(sum_on(in, out, some, half, stream), TUTTI_OK) << sentence(half);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(tutti_comm_device_status(half), TUTTI_OK) << sentence(half);
    EXPECT_EQ(from_gpu<int32_t>(out.get(), some), std::vector<int32_t>(some, rank < 2 ? 1 : 5));
    EXPECT_EQ(tutti_comm_free(half), TUTTI_OK);
  });
}

// Two ranks, each on a GPU of its own, in one process.
void on_two_gpus(std::map<std::string, std::string> environment,
                 const std::function<void(int, tutti_comm)>& body) {
  environment["FAKE_CUDA_DEVICES"] = "2";
  in_child(environment, [&] {
    tutti_unique_id id{};
    ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
    on_threads(2, [&](int rank) {
      tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
      config.device = rank == 0 ? "cuda:0" : "cuda:1";
      tutti_comm comm = nullptr;
      ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 2, &config, &comm), TUTTI_OK)
          << tutti_last_error();
      body(rank, comm);
      ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
    });
  });
}

TEST(TwoGpus, ReachEachOther) {
  on_two_gpus({}, [](int rank, tutti_comm comm) {
    void* memory = nullptr;
    ASSERT_EQ(tutti_mem_alloc_device(comm, some * 4, &memory), TUTTI_OK) << sentence(comm);
    to_gpu(memory, std::vector<int32_t>(some, rank + 1));
    // Of the null stream each GPU has its own.
    ASSERT_EQ(tutti_allreduce_on(TUTTI_IN_PLACE, memory, some, TUTTI_INT32, TUTTI_SUM, comm,
                                 nullptr, nullptr),
              TUTTI_OK)
        << sentence(comm);
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, memory, some, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(from_gpu<int32_t>(memory, some), std::vector<int32_t>(some, 6));
    GpuBuffer on_the_first(some * 4);
    if (rank == 1) {
      EXPECT_EQ(tutti_allreduce_on(TUTTI_IN_PLACE, on_the_first.get(), some, TUTTI_INT32, TUTTI_SUM,
                                   comm, nullptr, nullptr),
                TUTTI_INVALID);
      EXPECT_NE(sentence(comm).find("lies in memory of GPU 0, but the communicator is on GPU 1"),
                std::string::npos)
          << sentence(comm);
    }
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    EXPECT_EQ(tutti_mem_free(comm, memory), TUTTI_OK) << sentence(comm);
  });
}

TEST(TwoGpus, ThatCannotReachEachOtherGoThroughTheHost) {
  on_two_gpus({{"FAKE_CUDA_PEER", "0"}}, [](int rank, tutti_comm comm) {
    void* memory = nullptr;
    ASSERT_EQ(tutti_mem_alloc_device(comm, some * 4, &memory), TUTTI_OK) << sentence(comm);
    to_gpu(memory, std::vector<int32_t>(some, rank + 1));
    // proxy_test.cc has more of these.
    ASSERT_EQ(tutti_allreduce_on(TUTTI_IN_PLACE, memory, some, TUTTI_INT32, TUTTI_SUM, comm,
                                 nullptr, nullptr),
              TUTTI_OK)
        << sentence(comm);
    this_gpu = rank;
    ASSERT_TRUE(GpuStream().wait_for(nullptr));
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, memory, some, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(from_gpu<int32_t>(memory, some), std::vector<int32_t>(some, 6));
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(tutti_mem_free(comm, memory), TUTTI_OK) << sentence(comm);
  });
}

TEST(Barriers, OnAStreamWaitForAllRanks) {
  on_gpu_threads(3, [](int rank, tutti_comm comm) {
    GpuStream stream;
    for (const char* algorithm : {"auto", "tree"}) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = algorithm;
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
      const uint64_t begun_ns = now_ns();
      if (rank == 2) usleep(100'000);
      ASSERT_EQ(tutti_barrier_on(comm, &config, stream), TUTTI_OK) << sentence(comm);
      ASSERT_TRUE(stream.wait());
      EXPECT_GT(now_ns() - begun_ns, 90'000'000u);
      EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
    }
  });
}

}  // namespace
}  // namespace tutti::testing
