// Reduce through the C API: every algorithm, root, count and place against exact sums, and nobody
// but the root is written to.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::algorithms_of;
using tutti::testing::on_comm;
using tutti::testing::sentence;

class Reduce : public ::testing::TestWithParam<const char*> {};

TEST_P(Reduce, IsExactForEveryAlgorithmRootCountAndPlace) {
  const std::vector<std::string> names = algorithms_of("reduce");
  EXPECT_GE(names.size(), 4u);
  for (const int nranks : {1, 2, 3, 5, 8}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (const std::string& name : names) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = name.c_str();
        for (int root = 0; root < nranks; ++root) {
          for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{5003}}) {
            std::vector<int64_t> in(count), out(count, -1), expected(count, 0);
            for (size_t i = 0; i < count; ++i) {
              in[i] = int64_t(i) * (rank + 1);
              for (int r = 0; r < nranks; ++r) expected[i] += int64_t(i) * (r + 1);
            }
            ASSERT_EQ(tutti_reduce_with(in.data(), rank == root ? out.data() : nullptr, count,
                                        TUTTI_INT64, TUTTI_SUM, root, comm, &config),
                      TUTTI_OK)
                << sentence(comm);
            for (size_t i = 0; i < count; ++i) ASSERT_EQ(in[i], int64_t(i) * (rank + 1));
            if (rank == root) {
              ASSERT_EQ(out, expected) << name << " to " << root << ", count " << count;
            }
            const bool in_place = rank == root && count != 0;
            ASSERT_EQ(tutti_reduce_with(in_place ? TUTTI_IN_PLACE : in.data(), in.data(), count,
                                        TUTTI_INT64, TUTTI_SUM, root, comm, &config),
                      TUTTI_OK)
                << sentence(comm);
            if (rank == root) {
              ASSERT_EQ(in, expected) << name << " in place to " << root << ", count " << count;
            }
          }
        }
      }
    });
  }
}

TEST_P(Reduce, LargeVectorsAndAveragesOfSmallTypes) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    constexpr size_t count = 700'001;
    for (const std::string& name : algorithms_of("reduce")) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = name.c_str();
      std::vector<int16_t> in(count, int16_t(3 * rank)), out(rank == 1 ? count : 0);
      ASSERT_EQ(
          tutti_reduce_with(in.data(), out.data(), count, TUTTI_INT16, TUTTI_AVG, 1, comm, &config),
          TUTTI_OK)
          << sentence(comm);
      for (const int16_t value : out) ASSERT_EQ(value, 3) << name;
    }
  });
}

TEST_P(Reduce, RefusesWrongArgumentsAndGoesOn) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    int32_t in = rank + 1, out = 0;
    const auto refused = [&](tutti_status status, const char* word) {
      EXPECT_EQ(status, TUTTI_INVALID);
      EXPECT_NE(sentence(comm).find(word), std::string::npos) << sentence(comm);
    };
    refused(tutti_reduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, 2, comm), "root 2");
    refused(tutti_reduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, -1, comm), "root -1");
    refused(tutti_reduce(TUTTI_IN_PLACE, &out, 1, TUTTI_INT32, TUTTI_SUM, 1 - rank, comm),
            "only the root");
    refused(tutti_reduce(nullptr, &out, 1, TUTTI_INT32, TUTTI_SUM, 0, comm), "send buffer is NULL");
    refused(tutti_reduce(&in, nullptr, 1, TUTTI_INT32, TUTTI_SUM, rank, comm),
            "receive buffer is NULL");
    refused(tutti_reduce(&in, &out, 1, TUTTI_FLOAT32, TUTTI_BAND, 0, comm), "not defined");
    ASSERT_EQ(tutti_reduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, 0, comm), TUTTI_OK);
    EXPECT_EQ(out, rank == 0 ? 3 : 0);
  });
}

TEST_P(Reduce, AnotherRootIsAMismatchOnAllRanks) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    int32_t in = 1, out = 0;
    tutti_status status =
        tutti_reduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, rank == 1 ? 1 : 0, comm);
    if (status == TUTTI_OK) status = tutti_barrier(comm);  // it was through before the others
    EXPECT_EQ(status, TUTTI_MISMATCH) << sentence(comm);
    EXPECT_NE(sentence(comm).find("to rank 1"), std::string::npos) << sentence(comm);
    // The other side is what that rank does when it is looked at: the reduce, or the barrier.
    EXPECT_NE(sentence(comm).find("but rank"), std::string::npos) << sentence(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Reduce, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
