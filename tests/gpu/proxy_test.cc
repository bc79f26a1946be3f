// Stream-ordered calls between GPUs that cannot reach each other: the hosts make them.
#include <gtest/gtest.h>

#include "tests/gpu/apart.h"
#include "tests/support/fake_cuda/fake_cuda.h"

namespace tutti::testing {
namespace {

void larger(const void* lower, const void* higher, void* out, size_t count, tutti_dtype, void*) {
  for (size_t i = 0; i < count; ++i) {
    static_cast<int32_t*>(out)[i] =
        std::max(static_cast<const int32_t*>(lower)[i], static_cast<const int32_t*>(higher)[i]);
  }
}

class Transports : public ::testing::TestWithParam<const char*> {};

TEST_P(Transports, CarryEveryCollectiveOfThreads) {
  for (const int nranks : {2, 3}) {
    on_threads_apart(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      EXPECT_EQ(run_all(every_collective(nranks, {0, 1, 1000}, TUTTI_FLOAT32), rank, comm), "");
    });
  }
}
TEST_P(Transports, CarryEveryCollectiveOfProcesses) {
  if (!driver_is_fake()) GTEST_SKIP() << "only GPUs of the fake driver can be kept apart";
  const auto cases = every_collective(3, {1, 5000}, TUTTI_INT16);
  const auto children = start_apart(3, GetParam(), [&](int rank, tutti_comm comm) {
    Report report;
    const std::string wrong = run_all(cases, rank, comm);
    report.status = wrong.empty() ? TUTTI_OK : TUTTI_INTERNAL;
    snprintf(report.text, sizeof(report.text), "%s", wrong.c_str());
    return report;
  });
  for (const Child& child : children) {
    Report report;
    ASSERT_TRUE(finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}
INSTANTIATE_TEST_SUITE_P(Proxy, Transports, ::testing::Values("inproc,shm", "tcp"));

// More slices than slots.
TEST(Proxies, CutLongVectors) {
  on_threads_apart(2, "shm", [](int rank, tutti_comm comm) {
    EXPECT_EQ(run_all(every_collective(2, {600'001}, TUTTI_INT64), rank, comm), "");
    StreamCase whole{.nranks = 2, .count = 10 << 20, .dtype = TUTTI_UINT8};
    GpuStream stream;
    EXPECT_EQ(run_stream_case(whole, rank, comm, stream), "");
  });
}

tutti_status sum_on(const GpuBuffer& in, const GpuBuffer& out, size_t count, tutti_comm comm,
                    void* stream, const tutti_call_config* config = nullptr) {
  return tutti_allreduce_on(in.get(), out.get(), count, TUTTI_INT32, TUTTI_SUM, comm, config,
                            stream);
}

// Of two calls, one behind the other.
void replay(int rank, tutti_comm comm, size_t count, int times) {
  GpuStream stream;
  GpuBuffer a(count * 4), b(count * 4), c(count * 4);
  device::Driver& driver = gpu_driver();
  const device::Driver::Current current(driver, this_gpu);
  device::Graph graph = nullptr;
  expect_ok(driver.begin_capture(stream));
  ASSERT_EQ(sum_on(a, b, count, comm, stream), TUTTI_OK) << sentence(comm);
  ASSERT_EQ(sum_on(b, c, count, comm, stream), TUTTI_OK) << sentence(comm);
  expect_ok(driver.end_capture(stream, &graph));
  for (int time = 0; time < times; ++time) {
    to_gpu(a.get(), std::vector<int32_t>(count, rank + time));
    expect_ok(driver.launch_graph(graph, stream));
    ASSERT_TRUE(stream.wait());
    const int32_t expected = 2 * (2 * time + 1);
    ASSERT_EQ(from_gpu<int32_t>(c.get(), count), std::vector<int32_t>(count, expected)) << time;
  }
  ASSERT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
  // Calls that are not replayed go on as before.
  ASSERT_EQ(sum_on(a, b, count, comm, stream), TUTTI_OK) << sentence(comm);
  ASSERT_TRUE(stream.wait());
  EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
  driver.release_graph(graph);
}

TEST(Proxies, ReplayGraphsWithOtherData) {
  on_threads_apart(2, "shm", [](int rank, tutti_comm comm) {
    replay(rank, comm, 1000, 50);
    replay(rank, comm, (10 << 20) / 4, 3);
  });
}

constexpr size_t some = 1000;

TEST(Proxies, RunCallsInTheirOrderBesideThoseOfTheHost) {
  on_threads_apart(2, "shm", [](int rank, tutti_comm comm) {
    GpuStream streams[2];
    GpuBuffer a(some * 4), b(some * 4);
    to_gpu(a.get(), std::vector<int32_t>(some, rank));
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(sum_on(i % 2 == 0 ? a : b, i % 2 == 0 ? b : a, some, comm, streams[i % 2]),
                TUTTI_OK)
          << sentence(comm);
      int32_t one = 1, sum = 0;
      ASSERT_EQ(tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
          << sentence(comm);
      EXPECT_EQ(sum, 2);
    }
    ASSERT_EQ(tutti_barrier_on(comm, nullptr, streams[0]), TUTTI_OK) << sentence(comm);
    ASSERT_TRUE(streams[0].wait());
    EXPECT_EQ(from_gpu<int32_t>(a.get(), some), std::vector<int32_t>(some, 1 << 9));
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST(Proxies, HaveTheBitsOfTheHostsCallOfEachSlice) {
  on_threads_apart(3, "shm", [](int rank, tutti_comm comm) {
    constexpr size_t slice = (2 << 20) / 4, count = slice + some;
    const StreamCase c{.nranks = 3, .count = count, .dtype = TUTTI_FLOAT32};
    const Bytes mine = stream_input(c, size_t(rank), 0);
    GpuStream stream;
    GpuBuffer in(mine.size()), out(mine.size());
    copy_gpu(in.get(), mine.data(), mine.size());
    for (const char* algorithm : {"auto", "ring", "tree"}) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = algorithm;
      Bytes expected(mine.size());
      for (const auto& [at, length] : {std::pair{size_t{0}, slice}, std::pair{slice, some}}) {
        ASSERT_EQ(tutti_allreduce_with(mine.data() + at * 4, expected.data() + at * 4, length,
                                       TUTTI_FLOAT32, TUTTI_AVG, comm, &config),
                  TUTTI_OK)
            << sentence(comm);
      }
      ASSERT_EQ(tutti_allreduce_on(in.get(), out.get(), count, TUTTI_FLOAT32, TUTTI_AVG, comm,
                                   &config, stream),
                TUTTI_OK)
          << sentence(comm);
      ASSERT_TRUE(stream.wait());
      EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(from_gpu<std::byte>(out.get(), mine.size()), expected) << algorithm;
    }
  });
}

TEST(Proxies, TakeTheProgramsOperators) {
  on_threads_apart(2, "shm", [](int rank, tutti_comm comm) {
    tutti_op op{};
    ASSERT_EQ(tutti_op_create(larger, nullptr, 1, &op), TUTTI_OK) << tutti_last_error();
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    to_gpu(in.get(), std::vector<int32_t>(some, 10 + rank));
    ASSERT_EQ(tutti_allreduce_on(in.get(), out.get(), some, TUTTI_INT32, op, comm, nullptr, stream),
              TUTTI_OK)
        << sentence(comm);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(from_gpu<int32_t>(out.get(), some), std::vector<int32_t>(some, 11));
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
  });
}

TEST(Proxies, AllocateNothingForCallsThatAreRepeated) {
  on_threads_apart(2, "shm", [](int, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(1 << 20), out(1 << 20);
    FakeCudaCounts before{};
    for (int i = 0; i < 6; ++i) {
      if (i == 2) {
        ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
        before = fake_cuda_counts_now();
      }
      ASSERT_EQ(sum_on(in, out, 1 << 18, comm, stream), TUTTI_OK) << sentence(comm);
    }
    ASSERT_TRUE(stream.wait());
    const FakeCudaCounts after = fake_cuda_counts_now();
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.created, before.created);
    EXPECT_EQ(after.synchronisations, before.synchronisations);
  });
}

TEST(ProxyFailures, CallsThatDifferAreNamed) {
  on_threads_apart(2, "shm", [](int rank, tutti_comm comm) {
    // The first slices are alike.
    constexpr size_t slice = 2 << 18;
    const size_t count = (rank == 1 ? 2 : 3) * slice;
    GpuStream stream;
    GpuBuffer in(count * 4), out(count * 4);
    ASSERT_EQ(sum_on(in, out, count, comm, stream), TUTTI_OK) << sentence(comm);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_MISMATCH);
    const std::string text = sentence(comm);
    EXPECT_NE(text.find("allreduce of 1572864 int32"), std::string::npos) << text;
    EXPECT_NE(text.find("allreduce of 1048576 int32"), std::string::npos) << text;
    EXPECT_EQ(sum_on(in, out, count, comm, stream), TUTTI_MISMATCH) << sentence(comm);
  });
}

TEST(ProxyFailures, CallsThatOneRankNeverMakesEndAtTheirDeadline) {
  const Meeting ended;
  on_threads_apart(2, "shm", [&](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 200;
    if (rank == 0) {
      ASSERT_EQ(sum_on(in, out, some, comm, stream, &config), TUTTI_OK) << sentence(comm);
      ASSERT_TRUE(stream.wait(2000));
      EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_TIMEOUT) << sentence(comm);
      ended.arrive();
    } else {
      ended.wait_for(1);
    }
  });
}

TEST(ProxyFailures, CallsEndWhenTheCommunicatorIsAborted) {
  const Meeting made;
  on_threads_apart(2, "tcp", [&](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    if (rank == 1) {
      made.wait_for(1);
      usleep(100'000);  // it runs
      ASSERT_EQ(tutti_comm_abort(comm, "enough"), TUTTI_OK);
    } else {
      ASSERT_EQ(sum_on(in, out, some, comm, stream), TUTTI_OK) << sentence(comm);
      made.arrive();
      ASSERT_TRUE(stream.wait(2000));
    }
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_ABORTED);
    EXPECT_NE(sentence(comm).find("rank 1 called tutti_comm_abort(): enough"), std::string::npos)
        << sentence(comm);
  });
}

TEST(ProxyFailures, CallsSayWhatIsWrongWithTheirArguments) {
  on_threads_apart(2, "shm", [](int, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(some * 4), out(some * 4);
    std::vector<int32_t> host(some);
    EXPECT_EQ(tutti_allreduce_on(host.data(), out.get(), some, TUTTI_INT32, TUTTI_SUM, comm,
                                 nullptr, stream),
              TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("the send buffer lies in memory of the host"), std::string::npos)
        << sentence(comm);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = "nonsense";
    EXPECT_EQ(sum_on(in, out, some, comm, stream, &config), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("there is no allreduce algorithm \"nonsense\""),
              std::string::npos)
        << sentence(comm);
    const int32_t factor = 2;
    tutti_op doubled{};
    ASSERT_EQ(tutti_op_create_premul_sum(comm, &factor, TUTTI_INT32, &doubled), TUTTI_OK);
    EXPECT_EQ(
        tutti_allreduce_on(in.get(), out.get(), some, TUTTI_INT32, doubled, comm, nullptr, stream),
        TUTTI_UNSUPPORTED);
    EXPECT_NE(sentence(comm).find("pre-multiplied"), std::string::npos) << sentence(comm);
    EXPECT_EQ(tutti_op_free(doubled), TUTTI_OK);
    // Nothing of that has done any harm.
    ASSERT_EQ(sum_on(in, out, some, comm, stream), TUTTI_OK) << sentence(comm);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK);
  });
}

TEST_P(Transports, EndCallsWhenARankDies) {
  if (!driver_is_fake()) GTEST_SKIP() << "only GPUs of the fake driver can be kept apart";
  const Meeting first_call;
  const std::vector<Child> children = start_apart(3, GetParam(), [&](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(1 << 20), out(1 << 20);
    tutti_status status = TUTTI_OK;
    for (int call = 0; status == TUTTI_OK; ++call) {
      status = sum_on(in, out, 1 << 18, comm, stream);
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

// What is enqueued when a communicator is freed ends first.
TEST(Proxies, EndTheirCallsBeforeTheyGo) {
  on_threads_apart(2, "shm", [](int rank, tutti_comm comm) {
    tutti_comm copy = nullptr;
    ASSERT_EQ(tutti_comm_split(comm, 0, 0, &copy), TUTTI_OK) << sentence(comm);
    GpuStream stream;
    GpuBuffer in(4 << 20), out(4 << 20);
    to_gpu(in.get(), std::vector<int32_t>(1 << 20, rank + 1));
    if (rank == 0) usleep(50'000);
    ASSERT_EQ(sum_on(in, out, 1 << 20, copy, stream), TUTTI_OK) << sentence(copy);
    ASSERT_EQ(tutti_comm_free(copy), TUTTI_OK);
    EXPECT_EQ(from_gpu<int32_t>(out.get(), 1 << 20), std::vector<int32_t>(1 << 20, 3));
  });
}

}  // namespace
}  // namespace tutti::testing
