// Calls that only move data, between GPUs that cannot reach each other: UCX moves them from slots
// in memory of the GPUs. The fake driver's is memory of the host, so UCX is not asked.
#include <gtest/gtest.h>

#include "tests/gpu/apart.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/kept_log.h"

namespace tutti::testing {
namespace {

constexpr size_t slice = 2 << 20;  // bytes

const std::vector<Collective> movers = {Collective::broadcast, Collective::allgather,
                                        Collective::gather, Collective::scatter,
                                        Collective::alltoall};

class Direct : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TUTTI_UCX_DEVICE", "always", 1); }
  void TearDown() override { unsetenv("TUTTI_UCX_DEVICE"); }
  bool taken() const { return log_.says("go from GPU to GPU by ucx"); }
  bool refused(const char* why) const {
    return log_.says("go through the host: ") && log_.says(why);
  }

  KeptLog log_;  // a process's: of all ranks that are its threads
};

tutti_status gather_all(const GpuBuffer& in, const GpuBuffer& out, size_t bytes, tutti_comm comm,
                        void* stream, const tutti_call_config* config = nullptr) {
  return tutti_allgather_on(in.get(), out.get(), bytes, TUTTI_UINT8, comm, config, stream);
}

TEST_F(Direct, CarriesCallsOfThreads) {
  for (const int nranks : {2, 3, 4}) {
    on_threads_apart(nranks, "ucx", [&](int rank, tutti_comm comm) {
      EXPECT_TRUE(taken()) << log_.text();
      for (const int root : {0, nranks - 1}) {
        std::vector<StreamCase> cases = cases_of(movers, nranks, {0, 1, 1000}, TUTTI_INT32);
        for (StreamCase& c : cases) c.root = root;
        EXPECT_EQ(run_all(cases, rank, comm), "");
      }
    });
  }
}

TEST_F(Direct, CarriesCallsOfProcesses) {
  if (!driver_is_fake()) GTEST_SKIP() << "only GPUs of the fake driver can be kept apart";
  const auto children = start_apart(3, "ucx", [&](int rank, tutti_comm comm) {
    Report report;
    const std::string wrong =
        taken() ? run_all(cases_of(movers, 3, {1, 5000, 1 << 18}, TUTTI_INT16), rank, comm)
                : "it is not used: " + log_.text();
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

// More slices than slots, the last one shorter, and pieces that do not divide them.
TEST_F(Direct, CutsLongVectors) {
  on_threads_apart(3, "ucx", [](int rank, tutti_comm comm) {
    EXPECT_EQ(run_all(cases_of(movers, 3, {450'001}, TUTTI_INT64), rank, comm), "");
    const StreamCase whole{.collective = Collective::broadcast,
                           .nranks = 3,
                           .count = 5 * slice + 7,
                           .dtype = TUTTI_UINT8};
    EXPECT_EQ(run_all({whole}, rank, comm), "");
  });
}

// Those that do more than move go through memory of the host; nobody is told an error.
TEST_F(Direct, RunsBesideCallsThroughTheHostInAnyOrder) {
  on_threads_apart(4, "ucx", [](int rank, tutti_comm comm) {
    EXPECT_EQ(run_all(every_collective(4, {1, 300'001}, TUTTI_FLOAT32), rank, comm), "");
    for (const char* algorithm : {"direct", "bruck"}) {
      StreamCase c{.collective = Collective::alltoall, .algorithm = algorithm, .nranks = 4};
      c.count = 300'001;
      EXPECT_EQ(run_all({c}, rank, comm), "");
    }
    GpuStream stream;
    GpuBuffer a(slice), b(4 * slice);
    for (uint8_t round = 0; round < 5; ++round) {
      to_gpu(a.get(), std::vector<uint8_t>(slice, uint8_t(10 * round + rank)));
      ASSERT_EQ(gather_all(a, b, slice, comm, stream), TUTTI_OK) << sentence(comm);
      ASSERT_EQ(tutti_allreduce_on(TUTTI_IN_PLACE, b.get(), 4 * slice, TUTTI_UINT8, TUTTI_MAX, comm,
                                   nullptr, stream),
                TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(tutti_broadcast_on(a.get(), slice, TUTTI_UINT8, 1, comm, nullptr, stream), TUTTI_OK)
          << sentence(comm);
      ASSERT_TRUE(stream.wait());
      const std::vector<uint8_t> all = from_gpu<uint8_t>(b.get(), 4 * slice);
      EXPECT_EQ(all[slice - 1], 10 * round);
      EXPECT_EQ(all[4 * slice - 1], 10 * round + 3);
      EXPECT_EQ(from_gpu<uint8_t>(a.get(), slice),
                std::vector<uint8_t>(slice, uint8_t(10 * round + 1)));
    }
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
  });
}

TEST_F(Direct, ReplaysGraphsWithOtherData) {
  on_threads_apart(2, "ucx", [](int rank, tutti_comm comm) {
    constexpr size_t bytes = 5 * slice / 2;
    GpuStream stream;
    GpuBuffer a(bytes), b(2 * bytes), c(2 * bytes);
    device::Driver& driver = gpu_driver();
    const device::Driver::Current current(driver, this_gpu);
    device::Graph graph = nullptr;
    expect_ok(driver.begin_capture(stream));
    ASSERT_EQ(gather_all(a, b, bytes, comm, stream), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(tutti_alltoall_on(b.get(), c.get(), bytes, TUTTI_UINT8, comm, nullptr, stream),
              TUTTI_OK)
        << sentence(comm);
    expect_ok(driver.end_capture(stream, &graph));
    for (uint8_t time = 0; time < 5; ++time) {
      to_gpu(a.get(), std::vector<uint8_t>(bytes, uint8_t(2 * time + rank)));
      expect_ok(driver.launch_graph(graph, stream));
      ASSERT_TRUE(stream.wait());
      // Of both ranks the block that this rank has.
      ASSERT_EQ(from_gpu<uint8_t>(c.get(), 2 * bytes),
                std::vector<uint8_t>(2 * bytes, uint8_t(2 * time + rank)));
    }
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
    driver.release_graph(graph);
  });
}

// What a rank gets of its own is copied by its GPU: once more than through the host, whose
// processor does it.
TEST_F(Direct, LeavesOwnBlocksToTheGpu) {
  for (const bool directly : {true, false}) {
    if (!directly) setenv("TUTTI_UCX_DEVICE", "never", 1);
    on_threads_apart(2, "ucx", [&](int, tutti_comm comm) {
      EXPECT_TRUE(directly ? taken() : refused("TUTTI_UCX_DEVICE is never")) << log_.text();
      GpuStream stream;
      GpuBuffer in(1000), out(2000);
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
      const uint64_t before = fake_cuda_counts_now().copies;
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
      ASSERT_EQ(gather_all(in, out, 1000, comm, stream), TUTTI_OK) << sentence(comm);
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(fake_cuda_counts_now().copies - before, directly ? 6u : 4u);
      ASSERT_TRUE(stream.wait());
    });
  }
}

TEST_F(Direct, IsLeftAloneWhereItCannotBe) {
  const auto expect_refused = [&](const char* transports, const char* why) {
    on_threads_apart(2, transports, [&](int rank, tutti_comm comm) {
      EXPECT_TRUE(refused(why)) << log_.text();
      EXPECT_EQ(run_all(cases_of(movers, 2, {1000}, TUTTI_INT32), rank, comm), "");
    });
  };
  expect_refused("tcp", "no transport to another rank moves memory of GPUs");
  setenv("FAKE_CUDA_ORDERING", "0", 1);
  expect_refused("ucx", "the GPU neither flushes nor orders what a network writes");
  unsetenv("FAKE_CUDA_ORDERING");
  setenv("TUTTI_CHECK", "result", 1);
  expect_refused("ucx", "TUTTI_CHECK has the host read results");
  unsetenv("TUTTI_CHECK");
  // No UCX takes memory of GPUs that are none.
  setenv("TUTTI_UCX_DEVICE", "auto", 1);
  expect_refused("ucx", "does not handle memory of GPUs here");
}

// ---------------------------------------------------------------- failures

TEST_F(Direct, CallsThatDifferAreNamed) {
  on_threads_apart(2, "ucx", [](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(slice), out(4 * slice);
    ASSERT_EQ(gather_all(in, out, rank == 0 ? 1000 : 2000, comm, stream), TUTTI_OK);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_MISMATCH);
    const std::string text = sentence(comm);
    EXPECT_NE(text.find("allgather of 1000 uint8"), std::string::npos) << text;
    EXPECT_NE(text.find("allgather of 2000 uint8"), std::string::npos) << text;
  });
}

// They wait for each other on two communicators of the library's.
TEST_F(Direct, CallsOfWhichOneGoesThroughTheHostAreNamed) {
  on_threads_apart(2, "ucx", [](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(2000), out(2000);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 3'600'000;  // the deadline is not what ends them
    ASSERT_EQ(rank == 0 ? gather_all(in, out, 1000, comm, stream, &config)
                        : tutti_allreduce_on(in.get(), out.get(), 1000, TUTTI_UINT8, TUTTI_SUM,
                                             comm, &config, stream),
              TUTTI_OK);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_MISMATCH);
    const std::string text = sentence(comm);
    EXPECT_NE(text.find("allgather of 1000 uint8"), std::string::npos) << text;
    EXPECT_NE(text.find("allreduce of 1000 uint8"), std::string::npos) << text;
  });
}

TEST_F(Direct, CallsThatOneRankNeverMakesEndAtTheirDeadline) {
  const Meeting ended;
  on_threads_apart(2, "ucx", [&](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(4 * slice), out(8 * slice);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 200;
    if (rank == 0) {
      ASSERT_EQ(gather_all(in, out, 4 * slice, comm, stream, &config), TUTTI_OK);
      ASSERT_TRUE(stream.wait(2000));
      EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_TIMEOUT) << sentence(comm);
      ended.arrive();
    } else {
      ended.wait_for(1);
    }
  });
}

TEST_F(Direct, CallsEndWhenTheCommunicatorIsAborted) {
  const Meeting made;
  on_threads_apart(2, "ucx", [&](int rank, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(4 * slice), out(8 * slice);
    if (rank == 1) {
      made.wait_for(1);
      usleep(100'000);  // it runs
      ASSERT_EQ(tutti_comm_abort(comm, "enough"), TUTTI_OK);
    } else {
      ASSERT_EQ(gather_all(in, out, 4 * slice, comm, stream), TUTTI_OK);
      made.arrive();
      ASSERT_TRUE(stream.wait(2000));
    }
    EXPECT_EQ(tutti_comm_device_status(comm), TUTTI_ABORTED);
    EXPECT_NE(sentence(comm).find("rank 1 called tutti_comm_abort(): enough"), std::string::npos)
        << sentence(comm);
  });
}

// While slices are on their way.
TEST_F(Direct, CallsEndWhenARankDies) {
  if (!driver_is_fake()) GTEST_SKIP() << "only GPUs of the fake driver can be kept apart";
  const Meeting first_call;
  const std::vector<Child> children = start_apart(3, "ucx", [&](int, tutti_comm comm) {
    GpuStream stream;
    GpuBuffer in(4 * slice), out(12 * slice);
    tutti_status status = taken() ? TUTTI_OK : TUTTI_INTERNAL;
    for (int call = 0; status == TUTTI_OK; ++call) {
      status = gather_all(in, out, 4 * slice, comm, stream);
      if (!stream.wait()) break;
      if (status == TUTTI_OK) status = tutti_comm_device_status(comm);
      if (call == 0) first_call.arrive();
    }
    return report_of(status, comm);
  });
  first_call.wait_for(3);
  usleep(100'000);
  kill_and_expect_it_named(children, 1, 1'000'000'000);
}

}  // namespace
}  // namespace tutti::testing
