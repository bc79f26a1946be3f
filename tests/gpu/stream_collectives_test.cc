// Every collective in the order of a stream, on a fake GPU that runs the real kernels: each byte as
// the host's kernels make it.
#include <gtest/gtest.h>

#include "tests/gpu/stream_case.h"
#include "tests/support/sanitized.h"

namespace tutti::testing {
namespace {

const std::vector<Collective>& all_collectives() {
  static const std::vector<Collective> all = {
      Collective::allreduce, Collective::reduce,  Collective::broadcast,      Collective::allgather,
      Collective::gather,    Collective::scatter, Collective::reduce_scatter, Collective::alltoall,
      Collective::scan,      Collective::exscan};
  return all;
}

void run_all(const std::vector<StreamCase>& cases, int rank, tutti_comm comm) {
  GpuStream stream;
  for (const StreamCase& one : cases) {
    const std::string wrong = run_stream_case(one, rank, comm, stream);
    ASSERT_EQ(wrong, "") << one;
  }
}

std::vector<StreamCase> every_collective(int nranks, const std::vector<size_t>& counts) {
  std::vector<StreamCase> cases;
  for (const Collective collective : all_collectives()) {
    for (const size_t count : counts) {
      for (const bool in_place : {false, true}) {
        StreamCase c;
        c.collective = collective;
        c.nranks = nranks;
        c.count = count;
        c.in_place = in_place;
        c.root = nranks - 1;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

class RanksOnAGpu : public ::testing::TestWithParam<int> {};

TEST_P(RanksOnAGpu, RunEveryCollective) {
  const int nranks = GetParam();
  std::vector<StreamCase> cases = every_collective(nranks, {0, 1, 7, 1000, 40'000});
  for (const size_t count : {0, 1, 3, 1000}) {  // also shares of nothing
    StreamCase c{.algorithm = "two-shot", .nranks = nranks, .count = count};
    if (nranks > 1) cases.push_back(c);
  }
  on_gpu_threads(nranks, [&](int rank, tutti_comm comm) { run_all(cases, rank, comm); });
}
INSTANTIATE_TEST_SUITE_P(Threads, RanksOnAGpu, ::testing::Values(1, 2, 3, 4, 5, 8));

TEST(StreamCollectives, HaveKernelsForTypesAndOperators) {
  const std::vector<std::pair<tutti_dtype, tutti_op>> kinds = {
      {TUTTI_INT8, TUTTI_SUM},      {TUTTI_UINT16, TUTTI_MAX},   {TUTTI_INT64, TUTTI_PROD},
      {TUTTI_FLOAT16, TUTTI_SUM},   {TUTTI_BFLOAT16, TUTTI_AVG}, {TUTTI_FLOAT32, TUTTI_SUM},
      {TUTTI_FLOAT32, TUTTI_AVG},   {TUTTI_FLOAT64, TUTTI_PROD}, {TUTTI_INT32, TUTTI_AVG},
      {TUTTI_COMPLEX64, TUTTI_SUM}, {TUTTI_BOOL, TUTTI_SUM},     {TUTTI_INT32, TUTTI_LAND},
      {TUTTI_UINT8, TUTTI_LXOR},    {TUTTI_FLOAT32, TUTTI_MIN},  {TUTTI_UINT64, TUTTI_BXOR}};
  const size_t longer = sanitized ? 9000 : 70'000;
  const auto body = [&](int rank, tutti_comm comm) {
    GpuStream stream;
    for (const auto& [dtype, op] : kinds) {
      for (const Collective collective :
           {Collective::allreduce, Collective::reduce_scatter, Collective::scan, Collective::exscan,
            Collective::reduce}) {
        for (const size_t count : {size_t{33}, longer}) {
          for (const tutti_level level : {TUTTI_LEVEL_FAST, TUTTI_LEVEL_CANONICAL}) {
            StreamCase c{.collective = collective,
                         .nranks = 3,
                         .count = count,
                         .dtype = dtype,
                         .op = op,
                         .level = level};
            ASSERT_EQ(run_stream_case(c, rank, comm, stream), "") << c;
          }
        }
      }
    }
  };
  on_gpu_threads(3, body);
}

// Between processes vectors are reached where they were registered, and staged where they were not.
TEST(StreamCollectives, RunBetweenProcessesWhateverTheOthersReach) {
  on_gpu_processes(3, [](int rank, tutti_comm comm) {
    GpuStream stream;
    for (const Where where : {Where::plain, Where::shared, Where::mixed}) {
      for (StreamCase c : every_collective(3, {1, 5000, 40'000})) {
        c.where = where;
        c.offset = c.count == 5000 ? 5 : 0;
        if (c.count == 5000) c.dtype = TUTTI_INT8;
        ASSERT_EQ(run_stream_case(c, rank, comm, stream), "") << c;
      }
    }
  });
}

// Longer than the arena: in slices.
TEST(StreamCollectives, GoInSlicesWhereTheyAreStaged) {
  on_gpu_processes(2, [](int rank, tutti_comm comm) {
    GpuStream stream;
    const auto run = [&](Collective collective, size_t count, Where where) {
      StreamCase c{.collective = collective, .nranks = 2, .count = count, .dtype = TUTTI_INT64};
      c.where = where;
      c.in_place = where == Where::mixed;
      ASSERT_EQ(run_stream_case(c, rank, comm, stream), "") << c;
    };
    constexpr size_t count = (32 << 17) + 3;  // of 8 bytes each
    run(Collective::allreduce, count, Where::plain);
    run(Collective::allreduce, count, Where::mixed);
    run(Collective::alltoall, count / 2, Where::plain);
    run(Collective::reduce_scatter, count / 2, Where::mixed);
  });
}

TEST(StreamCollectives, TakeMemoryThatIsSymmetricInOnePiece) {
  on_gpu_processes(2, [](int rank, tutti_comm comm) {
    constexpr size_t count = (9 << 20) + 1;
    void* memory = nullptr;
    ASSERT_EQ(tutti_mem_alloc_device(comm, 2 * count * sizeof(int32_t), &memory), TUTTI_OK)
        << sentence(comm);
    auto* const in = static_cast<int32_t*>(memory);
    to_gpu(in, std::vector<int32_t>(count, rank + 1));
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.flags = TUTTI_CALL_SYMMETRIC;
    GpuStream stream;
    ASSERT_EQ(
        tutti_allreduce_on(in, in + count, count, TUTTI_INT32, TUTTI_SUM, comm, &config, stream),
        TUTTI_OK)
        << sentence(comm);
    ASSERT_TRUE(stream.wait());
    ASSERT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(from_gpu<int32_t>(in + count, count), std::vector<int32_t>(count, 3));
    GpuBuffer plain(64);
    EXPECT_EQ(tutti_allreduce_on(TUTTI_IN_PLACE, plain.get(), 4, TUTTI_INT32, TUTTI_SUM, comm,
                                 &config, stream),
              TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("is not in memory that tutti_mem_alloc_device()"),
              std::string::npos)
        << sentence(comm);
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    EXPECT_EQ(tutti_mem_free(comm, memory), TUTTI_OK) << sentence(comm);
  });
}

// Any algorithm, step by step, as on the host.
TEST(StreamCollectives, RunEveryAlgorithmStepByStep) {
  for (const int nranks : {2, 5}) {
    on_gpu_threads(nranks, [&](int rank, tutti_comm comm) {
      GpuStream stream;
      for (const Collective collective : all_collectives()) {
        for (const std::string& algorithm : algorithms_of(collective_name(collective))) {
          for (const bool in_place : {false, true}) {
            StreamCase c{.collective = collective,
                         .algorithm = algorithm,
                         .nranks = nranks,
                         .count = 3001,
                         .root = 1};
            c.in_place = in_place;
            c.flags = TUTTI_CALL_UNFUSED;
            const std::string wrong = run_stream_case(c, rank, comm, stream);
            if (wrong.find("cannot run here") != std::string::npos) continue;
            ASSERT_EQ(wrong, "") << c;
          }
        }
      }
    });
  }
}

TEST(StreamCollectives, RunEveryAlgorithmThatHoldsItAtLevelCanonical) {
  on_gpu_threads(4, [&](int rank, tutti_comm comm) {
    GpuStream stream;
    int held = 0;
    for (const std::string& algorithm : algorithms_of("allreduce")) {
      StreamCase c{.algorithm = algorithm, .nranks = 4, .count = 3001, .dtype = TUTTI_FLOAT32};
      c.level = TUTTI_LEVEL_CANONICAL;
      c.flags = TUTTI_CALL_UNFUSED;
      const std::string wrong = run_stream_case(c, rank, comm, stream);
      if (wrong.find("cannot run here") != std::string::npos) continue;
      ASSERT_EQ(wrong, "") << c;
      ++held;
    }
    EXPECT_GE(held, 3);
  });
}

// At level fast a schedule has the bits that it has on the host.
TEST(StreamCollectives, HaveTheBitsOfTheSameAlgorithmOnTheHost) {
  on_gpu_threads(3, [&](int rank, tutti_comm comm) {
    constexpr size_t count = 5003;
    GpuStream stream;
    GpuBuffer in(count * 4), out(count * 4);
    StreamCase c{.nranks = 3, .count = count, .dtype = TUTTI_FLOAT32};
    const Bytes mine = stream_input(c, size_t(rank), 0);
    copy_gpu(in.get(), mine.data(), mine.size());
    for (const std::string& algorithm : algorithms_of("allreduce")) {
      for (const tutti_op op : {TUTTI_SUM, TUTTI_AVG}) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = algorithm.c_str();
        config.flags = TUTTI_CALL_UNFUSED;
        Bytes expected(mine.size()), got(mine.size());
        ASSERT_EQ(tutti_allreduce_with(mine.data(), expected.data(), count, TUTTI_FLOAT32, op, comm,
                                       &config),
                  TUTTI_OK)
            << sentence(comm);
        ASSERT_EQ(tutti_allreduce_on(in.get(), out.get(), count, TUTTI_FLOAT32, op, comm, &config,
                                     stream),
                  TUTTI_OK)
            << sentence(comm);
        ASSERT_TRUE(stream.wait());
        ASSERT_EQ(tutti_comm_device_status(comm), TUTTI_OK) << sentence(comm);
        copy_gpu(got.data(), out.get(), got.size());
        EXPECT_EQ(got, expected) << algorithm << ", " << tutti_op_name(op);
      }
    }
  });
}

// GPUs that reach each other, or one that ranks share, can be told to go through the host, too: by
// one rank for all.
TEST(StreamCollectives, GoThroughTheHostWhereTheyAreTold) {
  on_gpu_processes(2, [](int rank, tutti_comm near) {
    if (rank == 1) setenv("TUTTI_DEVICE_PATH", "host", 1);
    setenv("TUTTI_DEVICE", "cuda:0", 1);
    tutti_unique_id id{};
    if (rank == 0) {
      ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
    }
    ASSERT_EQ(tutti_broadcast(&id, sizeof(id), TUTTI_UINT8, 0, near), TUTTI_OK) << sentence(near);
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 2, nullptr, &comm), TUTTI_OK)
        << tutti_last_error();
    run_all(every_collective(2, {1, 1000, 1'000'003}), rank, comm);
    // Of operators that only the host has.
    const auto larger = [](const void* lower, const void* higher, void* to, size_t count,
                           tutti_dtype, void*) {
      for (size_t i = 0; i < count; ++i) {
        static_cast<int32_t*>(to)[i] =
            std::max(static_cast<const int32_t*>(lower)[i], static_cast<const int32_t*>(higher)[i]);
      }
    };
    GpuBuffer in(64), out(64);
    GpuStream stream;
    tutti_op op{};
    ASSERT_EQ(tutti_op_create(larger, nullptr, 1, &op), TUTTI_OK) << tutti_last_error();
    EXPECT_EQ(tutti_allreduce_on(in.get(), out.get(), 16, TUTTI_INT32, op, comm, nullptr, stream),
              TUTTI_OK)
        << sentence(comm);
    EXPECT_NE(tutti_allreduce_on(in.get(), out.get(), 16, TUTTI_INT32, op, near, nullptr, stream),
              TUTTI_OK);
    ASSERT_TRUE(stream.wait());
    EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
    EXPECT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
}

}  // namespace
}  // namespace tutti::testing
