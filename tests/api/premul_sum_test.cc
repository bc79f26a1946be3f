// Pre-multiplied sums through the C API: each rank's own scalar, every algorithm, and their bits
// against a plain sum of products that were rounded before.
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tutti/tutti.hpp"

namespace {

using tutti::testing::algorithms_of;
using tutti::testing::on_comm;
using tutti::testing::sentence;

class PremulSum : public ::testing::TestWithParam<const char*> {};

TEST_P(PremulSum, OfBlocksAndScansMultipliesTheWholeInput) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    const double scalar = rank + 1;
    tutti_op op = TUTTI_OP_COUNT;
    ASSERT_EQ(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT64, &op), TUTTI_OK);
    std::vector<double> in(6);
    for (size_t i = 0; i < 6; ++i) in[i] = double(10 * i + size_t(rank));
    const auto sum = [](size_t i, int ranks) {
      double total = 0;
      for (int r = 0; r < ranks; ++r) total += double(r + 1) * double(10 * i + size_t(r));
      return total;
    };
    std::vector<double> out(2);
    const size_t mine = 2 * size_t(rank);
    ASSERT_EQ(tutti_reduce_scatter_block(in.data(), out.data(), 2, TUTTI_FLOAT64, op, comm),
              TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(out, (std::vector<double>{sum(mine, 3), sum(mine + 1, 3)}));
    const std::vector<size_t> lengths = {2, 2, 2};
    std::vector<double> buffer = in;
    ASSERT_EQ(tutti_reduce_scatter(TUTTI_IN_PLACE, buffer.data(), lengths.data(), TUTTI_FLOAT64, op,
                                   comm),
              TUTTI_OK);
    EXPECT_EQ(buffer[0], sum(mine, 3));
    std::vector<double> scanned(6);
    ASSERT_EQ(tutti_scan(in.data(), scanned.data(), 6, TUTTI_FLOAT64, op, comm), TUTTI_OK);
    EXPECT_EQ(scanned[5], sum(5, rank + 1));
    scanned.assign(6, -1);
    ASSERT_EQ(tutti_exscan(in.data(), scanned.data(), 6, TUTTI_FLOAT64, op, comm), TUTTI_OK);
    EXPECT_EQ(scanned[5], rank == 0 ? -1 : sum(5, rank));
    EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
  });
}

template <class T>
void check_sums(const char* transport, int nranks) {
  on_comm(nranks, transport, [&](int rank, tutti_comm comm) {
    const T scalar = T(rank + 2);
    tutti_op op = TUTTI_OP_COUNT;
    ASSERT_EQ(tutti_op_create_premul_sum(comm, &scalar, tutti::dtype_of<T>, &op), TUTTI_OK)
        << sentence(comm);
    for (const size_t count : {0, 1, 13, 3000}) {
      std::vector<T> expected(count), given(count);
      for (size_t i = 0; i < count; ++i) {
        given[i] = T(int(i % 100) + rank);
        for (int r = 0; r < nranks; ++r) expected[i] += T(r + 2) * T(int(i % 100) + r);
      }
      for (const std::string& name : algorithms_of("allreduce")) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = name.c_str();
        std::vector<T> in = given, out(count);
        ASSERT_EQ(tutti_allreduce_with(in.data(), out.data(), count, tutti::dtype_of<T>, op, comm,
                                       &config),
                  TUTTI_OK)
            << sentence(comm);
        ASSERT_EQ(out, expected) << name << ", " << nranks << " ranks, " << count;
        ASSERT_EQ(in, given) << "the input is only read";
        ASSERT_EQ(tutti_allreduce_with(TUTTI_IN_PLACE, in.data(), count, tutti::dtype_of<T>, op,
                                       comm, &config),
                  TUTTI_OK);
        ASSERT_EQ(in, expected) << name << " in place";
      }
      for (const std::string& name : algorithms_of("reduce")) {
        for (int root = 0; root < nranks; ++root) {
          tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
          config.algorithm = name.c_str();
          std::vector<T> in = given;
          std::vector<T> out(rank == root ? count : 0);
          ASSERT_EQ(tutti_reduce_with(in.data(), out.data(), count, tutti::dtype_of<T>, op, root,
                                      comm, &config),
                    TUTTI_OK)
              << sentence(comm);
          if (rank == root) {
            ASSERT_EQ(out, expected) << name << " to " << root;
          }
          ASSERT_EQ(in, given);
        }
      }
    }
    ASSERT_EQ(tutti_op_free(op), TUTTI_OK);
  });
}

TEST_P(PremulSum, TakesEachRanksOwnScalarInEveryAlgorithm) {
  for (const int nranks : {1, 2, 3, 5}) {
    check_sums<int32_t>(GetParam(), nranks);
    check_sums<uint8_t>(GetParam(), nranks);
    check_sums<float>(GetParam(), nranks);
    check_sums<std::complex<double>>(GetParam(), nranks);
  }
}

// A communicator of one rank gives the product alone.
TEST_P(PremulSum, RoundsTheProductToTheTypeBeforeAdding) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm alone = nullptr;
    ASSERT_EQ(tutti_comm_split(comm, rank, 0, &alone), TUTTI_OK);
    std::mt19937_64 random(uint64_t(rank) + 5);
    for (int type = 0; type < TUTTI_DTYPE_COUNT; ++type) {
      const auto dtype = tutti_dtype(type);
      const size_t size = tutti_dtype_size(dtype), count = 999;
      std::vector<uint8_t> scalar(size), in(count * size), products(in), expected(in), out(in);
      for (uint8_t& byte : scalar) byte = uint8_t(random());
      for (uint8_t& byte : in) byte = uint8_t(random());
      tutti_op op = TUTTI_OP_COUNT, product = TUTTI_OP_COUNT;
      const tutti_status made = tutti_op_create_premul_sum(comm, scalar.data(), dtype, &op);
      if (made != TUTTI_OK) {
        EXPECT_EQ(made, TUTTI_INVALID);
        EXPECT_TRUE(dtype == TUTTI_BOOL || dtype >= TUTTI_BINNED_FLOAT32 ||
                    !tutti_op_supports(TUTTI_SUM, dtype));
        EXPECT_EQ(sentence(comm),
                  std::string("a pre-multiplied sum is not defined on ") + tutti_dtype_name(dtype));
        continue;
      }
      ASSERT_EQ(tutti_op_create_premul_sum(alone, scalar.data(), dtype, &product), TUTTI_OK);
      ASSERT_EQ(tutti_allreduce(in.data(), products.data(), count, dtype, product, alone),
                TUTTI_OK);
      for (const std::string& name : algorithms_of("allreduce")) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = name.c_str();
        ASSERT_EQ(tutti_allreduce_with(products.data(), expected.data(), count, dtype, TUTTI_SUM,
                                       comm, &config),
                  TUTTI_OK);
        ASSERT_EQ(tutti_allreduce_with(in.data(), out.data(), count, dtype, op, comm, &config),
                  TUTTI_OK)
            << sentence(comm);
        ASSERT_EQ(out, expected) << name << " " << tutti_dtype_name(dtype);
      }
      tutti_op_free(op);
      tutti_op_free(product);
    }
    tutti_comm_free(alone);
  });
}

TEST_P(PremulSum, IsAMismatchWithAPlainSum) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    const float scalar = 0.5f;
    tutti_op op = TUTTI_OP_COUNT;
    ASSERT_EQ(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT32, &op), TUTTI_OK);
    float in = 1, out = 0;
    EXPECT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_FLOAT32, rank == 0 ? op : TUTTI_SUM, comm),
              TUTTI_MISMATCH);
    EXPECT_NE(sentence(comm).find("pre-multiplied sum"), std::string::npos) << sentence(comm);
    tutti_op_free(op);
  });
}

TEST_P(PremulSum, RefusesWrongArgumentsAndGoesOn) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm other = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &other), TUTTI_OK);
    float scalar = 2, in = float(rank), out = 0;
    tutti_op op = TUTTI_OP_COUNT;
    const auto refused = [&](tutti_status status, const char* words, tutti_comm on) {
      EXPECT_EQ(status, TUTTI_INVALID);
      EXPECT_NE(sentence(on).find(words), std::string::npos) << sentence(on);
    };
    EXPECT_EQ(tutti_op_create_premul_sum(nullptr, &scalar, TUTTI_FLOAT32, &op), TUTTI_INVALID);
    EXPECT_STREQ(tutti_last_error(), "the communicator is NULL");
    refused(tutti_op_create_premul_sum(comm, nullptr, TUTTI_FLOAT32, &op), "scalar is NULL", comm);
    refused(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT32, nullptr), "nowhere to put",
            comm);
    refused(tutti_op_create_premul_sum(comm, &scalar, TUTTI_DTYPE_COUNT, &op), "unknown type",
            comm);
    refused(tutti_op_create_premul_sum(comm, &scalar, TUTTI_BOOL, &op), "not defined on bool",
            comm);
    tutti_dtype own = TUTTI_DTYPE_COUNT;
    ASSERT_EQ(tutti_dtype_create(4, "four", &own), TUTTI_OK);
    refused(tutti_op_create_premul_sum(comm, &scalar, own, &op), "not defined on four", comm);
    ASSERT_EQ(tutti_dtype_free(own), TUTTI_OK);
    ASSERT_EQ(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT32, &op), TUTTI_OK);
    EXPECT_STREQ(tutti_op_name(op), "premul_sum");
    EXPECT_EQ(tutti_op_supports(op, TUTTI_FLOAT32), 1);
    EXPECT_EQ(tutti_op_supports(op, TUTTI_INT32), 0);
    refused(tutti_allreduce(&in, &out, 1, TUTTI_INT32, op, comm),
            "operator premul_sum is not defined on int32", comm);
    refused(tutti_allreduce(&in, &out, 1, TUTTI_FLOAT32, op, other), "for another communicator",
            other);
    scalar = 100;  // was read when the operator was made
    ASSERT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_FLOAT32, op, comm), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(out, 2.0f);
    ASSERT_EQ(tutti_op_free(op), TUTTI_OK);
    refused(tutti_allreduce(&in, &out, 1, TUTTI_FLOAT32, op, comm), "unknown operator", comm);
    ASSERT_EQ(tutti_comm_free(other), TUTTI_OK);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, PremulSum, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CppOwners, FreeWhatTheyOwn) {
  const tutti::communicator alone = tutti::communicator::from_id(tutti::make_unique_id(), 0, 1);
  tutti_op number = TUTTI_OP_COUNT;
  {
    const tutti::user_op half = alone.premul_sum(0.5);
    number = half.get();
    std::vector<double> values = {8, 6};
    alone.allreduce(std::span<double>(values), half.get());
    EXPECT_EQ(values, (std::vector<double>{4, 3}));
  }
  EXPECT_EQ(tutti_op_name(number), nullptr);
  EXPECT_THROW(tutti::user_op(nullptr, nullptr, true), tutti::error);
}

}  // namespace
