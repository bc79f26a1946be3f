// TUTTI_CHECK=result: the call after one whose results differ between ranks says so and names the
// rank that is alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

// A sum that one rank gets wrong: what an operator must not do.
thread_local int32_t error_of_this_rank = 0;
void faulty_sum(const void* lower, const void* higher, void* out, size_t count, tutti_dtype,
                void*) {
  for (size_t i = 0; i < count; ++i) {
    static_cast<int32_t*>(out)[i] = static_cast<const int32_t*>(lower)[i] +
                                    static_cast<const int32_t*>(higher)[i] + error_of_this_rank;
  }
}

class CheckResult : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { setenv("TUTTI_CHECK", "result", 1); }
  void TearDown() override { unsetenv("TUTTI_CHECK"); }

  // Each rank folds what all have sent, so that their results are their own.
  static void run(int nranks, int wrong, const std::function<void(int, tutti_comm)>& then) {
    tutti_op op = TUTTI_SUM;
    ASSERT_EQ(tutti_op_create(faulty_sum, nullptr, 1, &op), TUTTI_OK);
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      error_of_this_rank = rank == wrong ? 1 : 0;
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = "all-to-all";
      std::vector<int32_t> in(10, rank), out(10);
      ASSERT_EQ(
          tutti_allreduce_with(in.data(), out.data(), in.size(), TUTTI_INT32, op, comm, &config),
          TUTTI_OK)
          << sentence(comm);
      then(rank, comm);
    });
    ASSERT_EQ(tutti_op_free(op), TUTTI_OK);
  }
};

TEST_P(CheckResult, NamesTheRankThatIsAlone) {
  run(4, 2, [](int, tutti_comm comm) {
    EXPECT_EQ(tutti_barrier(comm), TUTTI_MISMATCH);
    EXPECT_NE(
        sentence(comm).find("the result of call 1 at rank 2 differs from that of the other ranks"),
        std::string::npos)
        << sentence(comm);
  });
}

TEST_P(CheckResult, NamesBothOfTwo) {
  run(2, 0, [](int, tutti_comm comm) {
    int32_t value = 0;
    EXPECT_EQ(tutti_broadcast(&value, 1, TUTTI_INT32, 0, comm) == TUTTI_MISMATCH ||
                  tutti_barrier(comm) == TUTTI_MISMATCH,
              true);
    EXPECT_NE(sentence(comm).find("the result of call 1 at rank "), std::string::npos)
        << sentence(comm);
    EXPECT_NE(sentence(comm).find(" differs from that at rank "), std::string::npos)
        << sentence(comm);
  });
}

TEST_P(CheckResult, SaysNothingWhereResultsAreEqualOrMeantToDiffer) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    for (size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{100'000}}) {
      std::vector<float> in(count * 3, float(rank)), out(count * 3, -1);
      const size_t counts[3] = {count, 0, 2 * count};
      const size_t displs[3] = {0, count, count};
      ASSERT_EQ(tutti_allreduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm),
                TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(tutti_scan(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(tutti_allgatherv(in.data(), counts[rank], out.data(), counts, displs, TUTTI_FLOAT32,
                                 comm),
                TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(tutti_broadcast(out.data(), count, TUTTI_FLOAT32, 1, comm), TUTTI_OK)
          << sentence(comm);
      tutti_request request = nullptr;
      ASSERT_EQ(
          tutti_iallgather(in.data(), out.data(), count, TUTTI_FLOAT32, comm, nullptr, &request),
          TUTTI_OK);
      ASSERT_EQ(tutti_wait(&request), TUTTI_OK) << sentence(comm);
      ASSERT_EQ(tutti_alltoall(in.data(), out.data(), count, TUTTI_FLOAT32, comm), TUTTI_OK)
          << sentence(comm);
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, CheckResult, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CheckResultSetting, IsRefusedWhenItIsNoneOfTheKinds) {
  setenv("TUTTI_CHECK", "everything", 1);
  tutti_comm comm = nullptr;
  EXPECT_EQ(tutti_comm_create_from_env(nullptr, &comm), TUTTI_INVALID);
  EXPECT_NE(std::string(tutti_last_error()).find("TUTTI_CHECK is 'everything'"), std::string::npos)
      << tutti_last_error();
  unsetenv("TUTTI_CHECK");
}

}  // namespace
