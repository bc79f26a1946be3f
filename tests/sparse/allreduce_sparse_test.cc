// Sparse allreduce against a plain oracle: every index that some rank gives, with the values of
// those ranks folded in rank order, on every transport, number of ranks, density, type and
// operator.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <latch>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"

namespace {

using namespace tutti::testing;
using Bytes = std::vector<unsigned char>;

struct Vector {
  std::vector<uint32_t> indices;
  Bytes values;
  bool operator==(const Vector&) const = default;
};

struct Case {
  size_t length = 0;
  tutti_dtype dtype = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  std::vector<Vector> ranks;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << tutti_dtype_name(c.dtype) << " " << tutti_op_name(c.op) << ", length " << c.length
      << ", entries";
  for (const Vector& v : c.ranks) out << " " << v.indices.size();
  return out;
}

// Any pattern is a value, but of accumulators.
void put_value(std::mt19937_64& random, tutti_dtype dtype, unsigned char* at) {
  if (dtype == TUTTI_BINNED_FLOAT32 || dtype == TUTTI_BINNED_FLOAT64) {
    const float value = float(random() % 1000) / 7;
    ASSERT_EQ(tutti_binned_deposit(at, dtype, &value, 1, TUTTI_FLOAT32), TUTTI_OK);
  } else if (dtype == TUTTI_FLOAT32) {  // sums that depend on their order
    const float value = std::ldexp(float(random() % 4096) - 2048, int(random() % 24));
    std::memcpy(at, &value, sizeof(value));
  } else {
    const uint64_t bits[2] = {random(), random()};
    std::memcpy(at, bits, tutti_dtype_size(dtype));
  }
}

// Each index is given with the probability of the rank's density.
Case make_case(size_t length, tutti_dtype dtype, tutti_op op, const std::vector<double>& densities,
               uint64_t seed) {
  std::mt19937_64 random(seed);
  Case c{length, dtype, op, {}};
  for (const double density : densities) {
    Vector v;
    for (uint32_t i = 0; i < length; ++i) {
      if (double(random() % 1'000'000) < density * 1e6) v.indices.push_back(i);
    }
    const size_t size = tutti_dtype_size(dtype);
    v.values.resize(v.indices.size() * size);
    for (size_t i = 0; i < v.indices.size(); ++i)
      put_value(random, dtype, v.values.data() + i * size);
    c.ranks.push_back(std::move(v));
  }
  return c;
}

// Divides as an average does.
void divide(tutti_dtype dtype, unsigned char* value, int n) {
  if (dtype == TUTTI_FLOAT32) {
    float x = 0;
    std::memcpy(&x, value, sizeof(x));
    x /= float(n);
    std::memcpy(value, &x, sizeof(x));
  } else {
    ASSERT_EQ(dtype, TUTTI_INT32);
    int32_t x = 0;
    std::memcpy(&x, value, sizeof(x));
    x /= n;
    std::memcpy(value, &x, sizeof(x));
  }
}

Vector oracle(const Case& c) {
  const size_t size = tutti_dtype_size(c.dtype);
  std::map<uint32_t, std::vector<const void*>> operands;
  for (const Vector& v : c.ranks) {
    for (size_t i = 0; i < v.indices.size(); ++i) {
      operands[v.indices[i]].push_back(v.values.data() + i * size);
    }
  }
  Vector out;
  const tutti_op op = c.op == TUTTI_AVG ? TUTTI_SUM : c.op;
  for (const auto& [index, values] : operands) {
    Bytes result(size);
    EXPECT_EQ(tutti_reduce_local(values.data(), values.size(), result.data(), 1, c.dtype, op,
                                 TUTTI_LEVEL_LAYOUT),
              TUTTI_OK)
        << tutti_last_error();
    if (c.op == TUTTI_AVG) divide(c.dtype, result.data(), int(c.ranks.size()));
    out.indices.push_back(index);
    out.values.insert(out.values.end(), result.begin(), result.end());
  }
  return out;
}

// The result on this rank, with room for exactly `capacity` entries and a guard behind them.
tutti_status call(const Case& c, int rank, tutti_comm comm, size_t capacity, Vector* out,
                  size_t* entries) {
  const Vector& mine = c.ranks[size_t(rank)];
  const size_t size = tutti_dtype_size(c.dtype);
  std::vector<uint32_t> indices(capacity + 1, 0xdecafbad);
  Bytes values((capacity + 1) * size, 0xa5);
  const tutti_sparse_in in{mine.indices.data(), mine.values.data(), mine.indices.size()};
  tutti_sparse_out recv{indices.data(), values.data(), capacity, 0};
  const tutti_status status = tutti_allreduce_sparse(&in, &recv, c.length, c.dtype, c.op, comm);
  EXPECT_EQ(indices[capacity], 0xdecafbad);
  EXPECT_EQ(values[capacity * size], 0xa5);
  *entries = recv.entries;
  if (status != TUTTI_OK) return status;
  out->indices.assign(indices.begin(), indices.begin() + long(recv.entries));
  out->values.assign(values.begin(), values.begin() + long(recv.entries * size));
  return status;
}

std::vector<Vector> oracles(const std::vector<Case>& cases) {
  std::vector<Vector> expected(cases.size());
  std::transform(cases.begin(), cases.end(), expected.begin(), oracle);
  return expected;
}

void check(const std::vector<Case>& cases, const char* transport) {
  const std::vector<Vector> expected = oracles(cases);
  on_comm(int(cases[0].ranks.size()), transport, [&](int rank, tutti_comm comm) {
    for (size_t i = 0; i < cases.size(); ++i) {
      Vector result;
      size_t entries = 0;
      ASSERT_EQ(call(cases[i], rank, comm, expected[i].indices.size(), &result, &entries), TUTTI_OK)
          << cases[i] << ": " << sentence(comm);
      ASSERT_EQ(result.indices, expected[i].indices) << cases[i];
      ASSERT_EQ(result.values, expected[i].values) << cases[i];
    }
  });
}

// Densities and lengths around everything that changes: nothing, one entry, bitmaps or indices,
// parts that are empty, all of the vector.
std::vector<Case> usual_cases(int nranks) {
  std::vector<Case> cases;
  uint64_t seed = uint64_t(nranks) * 1000;
  for (const size_t length : {0u, 1u, 2u, 31u, 64u, 65u, 500u, 4000u}) {
    for (const double density : {0.0, 0.001, 0.03, 0.2, 1.0}) {
      std::vector<double> densities(size_t(nranks), density);
      cases.push_back(make_case(length, TUTTI_FLOAT32, TUTTI_SUM, densities, ++seed));
      for (size_t r = 0; r < densities.size(); r += 2) densities[r] = 0;  // ranks that give nothing
      cases.push_back(make_case(length, TUTTI_INT32, TUTTI_MAX, densities, ++seed));
    }
  }
  // All of them give the same indices, which lie in one part.
  Case same = make_case(3000, TUTTI_FLOAT32, TUTTI_SUM, std::vector<double>(size_t(nranks), 0), 1);
  for (size_t r = 0; r < same.ranks.size(); ++r) {
    same.ranks[r].indices = {7, 8, 11};
    same.ranks[r].values.resize(12);
    for (size_t i = 0; i < 3; ++i) {
      const float value = float(r + 1) * float(i + 1) / 3;
      std::memcpy(same.ranks[r].values.data() + 4 * i, &value, 4);
    }
  }
  cases.push_back(same);
  return cases;
}

class Sparse : public ::testing::TestWithParam<const char*> {};

TEST_P(Sparse, ResultsAreThoseOfTheOracle) {
  for (int nranks = 1; nranks <= (sanitized ? 4 : 8); ++nranks) {
    check(usual_cases(nranks), GetParam());
  }
}

TEST_P(Sparse, VectorsMayBeLongerThanTheBuffersInBetween) {
  constexpr size_t length = sanitized ? 400'000 : 1'500'000;
  check({make_case(length, TUTTI_FLOAT32, TUTTI_SUM, {0.3, 0.01, 1.0}, 5)}, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Transports, Sparse, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ManyRanks, HaveResultsLikeThoseOfTheOracle) {
  for (const int nranks : sanitized ? std::vector{12} : std::vector{12, 16, 33}) {
    check(usual_cases(nranks), "inproc");
  }
}

TEST(EveryTypeAndOperator, IsReducedInRankOrder) {
  std::vector<Case> cases;
  for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
    for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
      const auto dtype = static_cast<tutti_dtype>(t);
      const auto op = static_cast<tutti_op>(o);
      if (tutti_op_supports(op, dtype) == 0) continue;
      if (op == TUTTI_AVG && dtype != TUTTI_FLOAT32 && dtype != TUTTI_INT32) continue;
      cases.push_back(make_case(600, dtype, op, {0.5, 0.02, 0.9}, uint64_t(t) * 100 + uint64_t(o)));
    }
  }
  check(cases, "inproc");
}

RC_GTEST_PROP(RandomVectors, InARowOnOneCommunicatorAreRight, ()) {
  const int nranks = *rc::gen::inRange(1, 7);
  std::vector<Case> cases;
  const size_t calls = *rc::gen::inRange<size_t>(1, 5);
  for (size_t i = 0; i < calls; ++i) {
    const auto densities = *rc::gen::container<std::vector<double>>(
        size_t(nranks), rc::gen::element(0.0, 0.002, 0.03, 0.5, 1.0));
    cases.push_back(make_case(*rc::gen::inRange<size_t>(0, 3000), TUTTI_FLOAT32, TUTTI_SUM,
                              densities, *rc::gen::arbitrary<uint64_t>()));
  }
  const std::vector<Vector> expected = oracles(cases);
  std::atomic<bool> all_right = true;
  on_comm(nranks, "inproc", [&](int rank, tutti_comm comm) {
    for (size_t i = 0; i < cases.size(); ++i) {
      Vector result;
      size_t entries = 0;
      const tutti_status status =
          call(cases[i], rank, comm, expected[i].indices.size(), &result, &entries);
      if (status != TUTTI_OK || !(result == expected[i])) all_right = false;
    }
  });
  RC_ASSERT(all_right.load());
}

TEST(TooLittleRoom, IsInvalidOnAllRanksWhichLearnTheNumberAndGoOn) {
  const Case c = make_case(100, TUTTI_INT32, TUTTI_SUM, {0.3, 0.3, 0.3}, 8);
  const Vector expected = oracle(c);
  const size_t needed = expected.indices.size();
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    on_comm(3, transport, [&](int rank, tutti_comm comm) {
      Vector result;
      size_t entries = 0;
      ASSERT_EQ(call(c, rank, comm, rank == 1 ? needed - 1 : needed, &result, &entries),
                TUTTI_INVALID);
      EXPECT_EQ(entries, needed);
      EXPECT_EQ(sentence(comm), "the result has " + std::to_string(needed) +
                                    " entries, but rank 1 has room for " +
                                    std::to_string(needed - 1));
      ASSERT_EQ(call(c, rank, comm, needed, &result, &entries), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(result, expected);
    });
  }
}

struct Wrong {
  const char* says;
  tutti_sparse_in in;
  tutti_sparse_out out;
  size_t length = 10;
  tutti_dtype dtype = TUTTI_INT32;
  tutti_op op = TUTTI_SUM;
};

TEST(WrongArguments, AreNamedAndTheCommunicatorGoesOn) {
  static uint32_t rising[] = {1, 4, 9}, twice[] = {1, 4, 4}, falling[] = {4, 1, 9},
                  other[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  static int32_t values[10], result[10];
  tutti_op user = TUTTI_OP_COUNT;
  ASSERT_EQ(tutti_op_create([](const void*, const void*, void*, size_t, tutti_dtype, void*) {},
                            nullptr, 1, &user),
            TUTTI_OK);
  const tutti_sparse_in good{rising, values, 3};
  const tutti_sparse_out room{other, result, 10, 0};
  const std::vector<Wrong> calls = {
      {"indices must ascend, but [1] is 4 and the next 4", {twice, values, 3}, room},
      {"indices must ascend, but [0] is 4 and the next 1", {falling, values, 3}, room},
      {"index 9 is not below the length, 9", good, room, 9},
      {"index 9 is not below the length, 0", good, room, 0},
      {"to send are NULL", {nullptr, values, 3}, room},
      {"to send are NULL", {rising, nullptr, 3}, room},
      {"to receive are NULL", good, {nullptr, result, 10, 0}},
      {"to receive are NULL", good, {other, nullptr, 10, 0}},
      {"buffers overlap", good, {other, values + 2, 8, 0}},
      {"buffers overlap", {other, values, 3}, {other + 2, result, 8, 0}},
      {"indices have 32 bits", good, room, (size_t{1} << 32) + 1},
      {"unknown type 9999", good, room, 10, static_cast<tutti_dtype>(9999)},
      {"unknown operator 9999", good, room, 10, TUTTI_INT32, static_cast<tutti_op>(9999)},
      {"not defined on int32", good, room, 10, TUTTI_INT32, TUTTI_MINLOC},
      {"built-in types and operators only", good, room, 10, TUTTI_INT32, user},
  };
  on_comm(2, "inproc", [&](int rank, tutti_comm comm) {
    for (const Wrong& wrong : calls) {
      if (rank != 0) break;
      tutti_sparse_out out = wrong.out;
      EXPECT_EQ(tutti_allreduce_sparse(&wrong.in, &out, wrong.length, wrong.dtype, wrong.op, comm),
                TUTTI_INVALID)
          << wrong.says;
      EXPECT_NE(sentence(comm).find(wrong.says), std::string::npos)
          << wrong.says << ", but it says: " << sentence(comm);
    }
    if (rank == 0) {
      tutti_sparse_out out = room;
      const tutti_sparse_in in = good;
      EXPECT_EQ(tutti_allreduce_sparse(nullptr, &out, 10, TUTTI_INT32, TUTTI_SUM, comm),
                TUTTI_INVALID);
      EXPECT_EQ(tutti_allreduce_sparse(&in, nullptr, 10, TUTTI_INT32, TUTTI_SUM, comm),
                TUTTI_INVALID);
      EXPECT_EQ(tutti_allreduce_sparse(&in, &out, 10, TUTTI_INT32, TUTTI_SUM, nullptr),
                TUTTI_INVALID);
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = "ring";
      EXPECT_EQ(tutti_allreduce_sparse_with(&in, &out, 10, TUTTI_INT32, TUTTI_SUM, comm, &config),
                TUTTI_INVALID);
      EXPECT_EQ(sentence(comm), "this call has one algorithm, which is not chosen by name");
      config.algorithm = nullptr;
      config.level = TUTTI_LEVEL_CANONICAL;
      EXPECT_EQ(tutti_allreduce_sparse_with(&in, &out, 10, TUTTI_FLOAT32, TUTTI_SUM, comm, &config),
                TUTTI_UNSUPPORTED);
      EXPECT_EQ(sentence(comm), "this call holds level layout, not canonical");
      ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
      EXPECT_EQ(tutti_allreduce_sparse(&in, &out, 10, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_INVALID);
      ASSERT_EQ(tutti_group_cancel(comm), TUTTI_OK);
    }
    EXPECT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
  tutti_op_free(user);
}

TEST(Mismatch, OfLengthTypeOrOperatorNamesWhatTwoRanksPassed) {
  struct Different {
    size_t length;
    tutti_dtype dtype;
    tutti_op op;
    const char* says;
  };
  const Different all[] = {{11, TUTTI_INT32, TUTTI_SUM, "11 int32, sum"},
                           {10, TUTTI_UINT32, TUTTI_SUM, "10 uint32, sum"},
                           {10, TUTTI_INT32, TUTTI_MAX, "10 int32, max"}};
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    for (const Different& d : all) {
      on_comm(3, transport, [&](int rank, tutti_comm comm) {
        const uint32_t indices[] = {2, 3};
        const int32_t values[] = {5, 6};
        uint32_t out_indices[10];
        int32_t out_values[10];
        const tutti_sparse_in in{indices, values, 2};
        tutti_sparse_out out{out_indices, out_values, 10, 0};
        const bool other = rank == 1;
        EXPECT_EQ(
            tutti_allreduce_sparse(&in, &out, other ? d.length : 10, other ? d.dtype : TUTTI_INT32,
                                   other ? d.op : TUTTI_SUM, comm),
            TUTTI_MISMATCH);
        EXPECT_NE(sentence(comm).find("in call 1, allreduce_sparse (alltoall"), std::string::npos)
            << sentence(comm);
        for (const char* part : {"10 int32, sum", d.says, "rank 1 "}) {
          EXPECT_NE(sentence(comm).find(part), std::string::npos) << sentence(comm);
        }
      });
    }
  }
}

TEST(Mismatch, WithAnotherCollectiveNamesBoth) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    on_comm(2, transport, [](int rank, tutti_comm comm) {
      const tutti_sparse_in in{nullptr, nullptr, 0};
      tutti_sparse_out out{nullptr, nullptr, 0, 0};
      float a = 1, b = 0;
      const tutti_status status =
          rank == 0 ? tutti_allreduce_sparse(&in, &out, 10, TUTTI_FLOAT32, TUTTI_SUM, comm)
                    : tutti_allreduce(&a, &b, 1, TUTTI_FLOAT32, TUTTI_SUM, comm);
      EXPECT_EQ(status, TUTTI_MISMATCH);
      EXPECT_NE(sentence(comm).find("allreduce_sparse"), std::string::npos) << sentence(comm);
      EXPECT_NE(sentence(comm).find("allreduce of 1 float32"), std::string::npos) << sentence(comm);
    });
  }
}

TEST(Timeout, NamesTheCallAndTheRankThatDidNotCome) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    std::latch timed_out(1);  // who does not come stays, so that it is not reported as gone
    on_comm(2, transport, [&](int rank, tutti_comm comm) {
      if (rank == 1) return timed_out.wait();
      const tutti_sparse_in in{nullptr, nullptr, 0};
      tutti_sparse_out out{nullptr, nullptr, 0, 0};
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.timeout_ms = 100;
      EXPECT_EQ(tutti_allreduce_sparse_with(&in, &out, 10, TUTTI_FLOAT32, TUTTI_SUM, comm, &config),
                TUTTI_TIMEOUT);
      EXPECT_NE(sentence(comm).find("allreduce_sparse (alltoall"), std::string::npos)
          << sentence(comm);
      EXPECT_NE(sentence(comm).find("waited for rank 1"), std::string::npos) << sentence(comm);
      timed_out.count_down();
    });
  }
}

TEST(Departure, OfARankIsNoticedAndNamed) {
  for (const char* transport : {"shm", "tcp"}) {
    on_comm(3, transport, [](int rank, tutti_comm comm) {
      if (rank == 2) return;
      const tutti_sparse_in in{nullptr, nullptr, 0};
      tutti_sparse_out out{nullptr, nullptr, 0, 0};
      EXPECT_EQ(tutti_allreduce_sparse(&in, &out, 10, TUTTI_FLOAT32, TUTTI_SUM, comm),
                TUTTI_PEER_FAILED);
      EXPECT_NE(sentence(comm).find("allreduce_sparse"), std::string::npos) << sentence(comm);
      EXPECT_NE(sentence(comm).find("rank 2"), std::string::npos) << sentence(comm);
    });
  }
}

}  // namespace
