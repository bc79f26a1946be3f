// Top-k with error feedback against its definition: which entries are sent, that nothing is lost,
// and that all ranks get the same bits.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using namespace tutti::testing;

struct FreeTopK {
  void operator()(tutti_topk topk) const { tutti_topk_free(topk); }
};
using TopK = std::unique_ptr<tutti_topk_s, FreeTopK>;

TopK make(size_t length, size_t k, tutti_dtype dtype) {
  tutti_topk made = nullptr;
  EXPECT_EQ(tutti_topk_create(length, k, dtype, &made), TUTTI_OK) << tutti_last_error();
  return TopK(made);
}

template <class Float>
constexpr tutti_dtype type_of = sizeof(Float) == 4 ? TUTTI_FLOAT32 : TUTTI_FLOAT64;

// One rank by the definition, with a sort.
template <class Float>
struct Definition {
  std::vector<Float> residual;
  size_t k;

  Definition(size_t length, size_t count) : residual(length, 0), k(count) {}

  // What is sent; zero elsewhere.
  std::vector<Float> step(const std::vector<Float>& input) {
    for (size_t i = 0; i < input.size(); ++i) residual[i] += input[i];
    std::vector<size_t> order(input.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto rank_of = [&](size_t i) {
      return std::isnan(residual[i])
                 ? std::numeric_limits<double>::infinity()
                 : std::min(double(std::fabs(residual[i])), std::numeric_limits<double>::max());
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (std::isnan(residual[a]) != std::isnan(residual[b])) return std::isnan(residual[a]);
      return rank_of(a) > rank_of(b);
    });
    std::vector<Float> sent(input.size(), 0);
    for (size_t i = 0; i < std::min(k, order.size()); ++i) {
      std::swap(sent[order[i]], residual[order[i]]);
      residual[order[i]] = 0;
    }
    return sent;
  }
};

template <class Float>
bool same_bits(const std::vector<Float>& a, const std::vector<Float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Float)) == 0);
}

template <class Float>
std::vector<Float> residual_of(tutti_topk topk, size_t length) {
  void* at = nullptr;
  EXPECT_EQ(tutti_topk_residual(topk, &at), TUTTI_OK);
  const auto* values = static_cast<const Float*>(at);
  return {values, values + length};
}

// Inputs of all ranks in one step; many are equal in magnitude, some zero.
template <class Float>
std::vector<std::vector<Float>> inputs_of(std::mt19937_64& random, int nranks, size_t length) {
  std::vector<std::vector<Float>> inputs(static_cast<size_t>(nranks));
  for (auto& input : inputs) {
    for (size_t i = 0; i < length; ++i) {
      const auto coarse = Float(int(random() % 17) - 8);
      input.push_back(random() % 4 != 0 ? coarse : coarse / Float(3 + random() % 5));
    }
  }
  return inputs;
}

template <class Float>
void check_steps(int nranks, const char* transport, size_t length, size_t k, bool in_place) {
  constexpr int steps = 12;
  std::mt19937_64 random(length * 31 + k);
  std::vector<Definition<Float>> ranks(size_t(nranks), Definition<Float>(length, k));
  std::vector<std::vector<std::vector<Float>>> inputs;
  std::vector<std::vector<Float>> results;
  for (int step = 0; step < steps; ++step) {
    inputs.push_back(inputs_of<Float>(random, nranks, length));
    std::vector<Float> sum(length, 0);
    for (size_t r = 0; r < ranks.size(); ++r) {
      const std::vector<Float> sent = ranks[r].step(inputs.back()[r]);
      for (size_t i = 0; i < length; ++i) sum[i] += sent[i];
    }
    results.push_back(std::move(sum));
  }
  on_comm(nranks, transport, [&](int rank, tutti_comm comm) {
    const TopK topk = make(length, k, type_of<Float>);
    for (size_t step = 0; step < steps; ++step) {
      const std::vector<Float>& input = inputs[step][size_t(rank)];
      std::vector<Float> out = in_place ? input : std::vector<Float>(length, Float(-77));
      ASSERT_EQ(tutti_topk_allreduce(in_place ? TUTTI_IN_PLACE : input.data(), out.data(),
                                     TUTTI_SUM, topk.get(), comm),
                TUTTI_OK)
          << sentence(comm);
      // Equal values: zeros may differ in their sign.
      ASSERT_EQ(out, results[step]) << "step " << step << ", length " << length << ", k " << k;
    }
    EXPECT_EQ(residual_of<Float>(topk.get(), length), ranks[size_t(rank)].residual);
  });
}

class TopKSums : public ::testing::TestWithParam<const char*> {};

TEST_P(TopKSums, AreThoseOfTheDefinitionStepByStep) {
  for (const int nranks : {1, 2, 5}) {
    for (const size_t length : {0u, 1u, 40u, 1000u}) {
      for (const size_t k : {size_t{0}, size_t{1}, length / 100, length / 3, length}) {
        if (k > length) continue;
        check_steps<float>(nranks, GetParam(), length, k, k % 2 == 0);
      }
    }
  }
  check_steps<double>(4, GetParam(), 300, 20, false);
}

INSTANTIATE_TEST_SUITE_P(Transports, TopKSums, ::testing::Values("inproc", "shm"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ManyRanks, SumTheirLargestOverTcpAndInproc) {
  check_steps<float>(5, "tcp", 200, 9, false);
  for (const int nranks : {12, 16, 33}) check_steps<float>(nranks, "inproc", 200, 9, false);
}

// Inputs are whole numbers, of which no sum is rounded.
RC_GTEST_PROP(Conservation, WhatWasSentAndTheResidualAreTheSumOfTheInputs, ()) {
  const int nranks = *rc::gen::inRange(1, 5);
  const size_t length = *rc::gen::inRange<size_t>(1, 400);
  const size_t k = *rc::gen::inRange<size_t>(0, length + 1);
  const size_t steps = *rc::gen::inRange<size_t>(1, 20);
  const uint64_t seed = *rc::gen::arbitrary<uint64_t>();
  std::vector<std::vector<float>> given(size_t(nranks), std::vector<float>(length, 0)), kept(given);
  std::vector<float> sent(length, 0);
  on_comm(nranks, "inproc", [&](int rank, tutti_comm comm) {
    std::mt19937_64 random(seed + uint64_t(rank));
    const TopK topk = make(length, k, TUTTI_FLOAT32);
    std::vector<float> input(length), out(length);
    for (size_t step = 0; step < steps; ++step) {
      for (size_t i = 0; i < length; ++i) {
        input[i] = float(int(random() % 2001) - 1000);
        given[size_t(rank)][i] += input[i];
      }
      ASSERT_EQ(tutti_topk_allreduce(input.data(), out.data(), TUTTI_SUM, topk.get(), comm),
                TUTTI_OK);
      if (rank == 0) {
        for (size_t i = 0; i < length; ++i) sent[i] += out[i];
      }
    }
    kept[size_t(rank)] = residual_of<float>(topk.get(), length);
  });
  for (size_t i = 0; i < length; ++i) {
    float all = 0, rest = 0;
    for (size_t r = 0; r < given.size(); ++r) {
      all += given[r][i];
      rest += kept[r][i];
    }
    RC_ASSERT(sent[i] + rest == all);
  }
}

TEST(Choice, OfEqualMagnitudesIsTheLowestIndexAndNanIsLargest) {
  on_comm(1, "inproc", [](int, tutti_comm comm) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    const auto sent = [&](size_t k, const std::vector<float>& input) {
      const TopK topk = make(input.size(), k, TUTTI_FLOAT32);
      std::vector<float> out(input.size());
      EXPECT_EQ(tutti_topk_allreduce(input.data(), out.data(), TUTTI_SUM, topk.get(), comm),
                TUTTI_OK);
      return out;
    };
    EXPECT_EQ(sent(2, {1, -3, 3, -3}), (std::vector<float>{0, -3, 3, 0}));
    EXPECT_EQ(sent(3, {-2, 2, 2, 2, 2.5f}), (std::vector<float>{-2, 2, 0, 0, 2.5f}));
    EXPECT_EQ(sent(1, {5, -infinity, infinity}), (std::vector<float>{0, -infinity, 0}));
    EXPECT_EQ(sent(4, {0, 1e-45f, -0.0f, 2}), (std::vector<float>{0, 1e-45f, 0, 2}));
    const std::vector<float> with_nan = sent(2, {infinity, 1, -nan, nan, nan});
    EXPECT_TRUE(std::isnan(with_nan[2]) && std::isnan(with_nan[3]));
    EXPECT_EQ(with_nan[0], 0);
    EXPECT_EQ(with_nan[4], 0);
  });
}

TEST(Average, IsOverAllRanks) {
  on_comm(4, "inproc", [](int rank, tutti_comm comm) {
    const TopK topk = make(3, 1, TUTTI_FLOAT64);
    const double input[] = {rank == 0 ? 8.0 : 0.0, 1, rank == 0 ? 0.0 : 4.0};
    double out[3];
    ASSERT_EQ(tutti_topk_allreduce(input, out, TUTTI_AVG, topk.get(), comm), TUTTI_OK);
    EXPECT_EQ(out[0], 2);
    EXPECT_EQ(out[1], 0);
    EXPECT_EQ(out[2], 3);
  });
}

TEST(Failure, LeavesTheResidualAsItWas) {
  on_comm(2, "inproc", [](int rank, tutti_comm comm) {
    const TopK topk = make(4, size_t(rank + 1), TUTTI_FLOAT32);
    const float input[] = {1, 2, 3, 4};
    float out[4];
    EXPECT_EQ(tutti_topk_allreduce(input, out, TUTTI_SUM, topk.get(), comm), TUTTI_MISMATCH);
    EXPECT_NE(sentence(comm).find("4 float32, sum, k 2"), std::string::npos) << sentence(comm);
    EXPECT_NE(sentence(comm).find("4 float32, sum, k 1"), std::string::npos) << sentence(comm);
    EXPECT_NE(sentence(comm).find("topk_allreduce"), std::string::npos) << sentence(comm);
    EXPECT_EQ(residual_of<float>(topk.get(), 4), (std::vector<float>{0, 0, 0, 0}));
  });
}

TEST(WrongArguments, AreNamed) {
  tutti_topk topk = nullptr;
  EXPECT_EQ(tutti_topk_create(3, 4, TUTTI_FLOAT32, &topk), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "k is 4, more than the length, 3");
  EXPECT_EQ(topk, nullptr);
  EXPECT_EQ(tutti_topk_create(3, 1, TUTTI_INT32, &topk), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "a top-k is of float32 or float64, not of int32");
  EXPECT_EQ(tutti_topk_create((size_t{1} << 32) + 1, 1, TUTTI_FLOAT32, &topk), TUTTI_INVALID);
  EXPECT_EQ(tutti_topk_create(3, 1, TUTTI_FLOAT32, nullptr), TUTTI_INVALID);
  void* residual = nullptr;
  EXPECT_EQ(tutti_topk_residual(nullptr, &residual), TUTTI_INVALID);
  EXPECT_EQ(tutti_topk_free(nullptr), TUTTI_OK);
  const TopK good = make(4, 2, TUTTI_FLOAT32);
  on_comm(1, "inproc", [&](int, tutti_comm comm) {
    float a[8] = {}, b[4];
    EXPECT_EQ(tutti_topk_allreduce(a, b, TUTTI_SUM, nullptr, comm), TUTTI_INVALID);
    EXPECT_EQ(sentence(comm), "the top-k is NULL");
    EXPECT_EQ(tutti_topk_allreduce(a, b, TUTTI_MAX, good.get(), comm), TUTTI_INVALID);
    EXPECT_EQ(sentence(comm), "a top-k has sum and avg only, not max");
    EXPECT_EQ(tutti_topk_allreduce(nullptr, b, TUTTI_SUM, good.get(), comm), TUTTI_INVALID);
    EXPECT_EQ(tutti_topk_allreduce(a, nullptr, TUTTI_SUM, good.get(), comm), TUTTI_INVALID);
    EXPECT_EQ(tutti_topk_allreduce(a, a + 3, TUTTI_SUM, good.get(), comm), TUTTI_INVALID);
    EXPECT_EQ(tutti_topk_allreduce(a, b, TUTTI_SUM, good.get(), comm), TUTTI_OK);
  });
}

}  // namespace
