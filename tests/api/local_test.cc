// Arithmetic on one rank, and accumulators that ranks sum: tutti_reduce_local(), tutti_binned_*().
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tutti/tutti.h"
#include "tutti/tutti.hpp"

namespace tutti {
namespace {

using testing::algorithms_of;
using testing::on_comm;
using testing::sentence;

// One element of `values.size()` operands.
template <class T>
T local(const std::vector<T>& values, tutti_op op, tutti_level level) {
  std::vector<const T*> operands;
  operands.reserve(values.size());
  for (const T& value : values) operands.push_back(&value);
  T out{};
  reduce_local<T>(operands, std::span(&out, 1), op, level);
  return out;
}

TEST(ReduceLocal, EachLevelHasItsArithmetic) {
  const float tiny = 0x1p-24f;
  // From the left every tiny one is lost; in pairs two of them are enough; exactly all count.
  const std::vector<float> values = {1.0f, tiny, tiny, tiny, tiny};
  for (const tutti_level level : {TUTTI_LEVEL_DEFAULT, TUTTI_LEVEL_FAST, TUTTI_LEVEL_LAYOUT}) {
    EXPECT_EQ(local(values, TUTTI_SUM, level), 1.0f);
  }
  // ((1 + tiny) + tiny) + (tiny + tiny)
  EXPECT_EQ(local(values, TUTTI_SUM, TUTTI_LEVEL_CANONICAL), 1.0f + 2 * tiny);
  EXPECT_EQ(local(values, TUTTI_SUM, TUTTI_LEVEL_EXACT), 1.0f + 4 * tiny);
  EXPECT_EQ(local<float>({1e30f, 1.0f, -1e30f}, TUTTI_SUM, TUTTI_LEVEL_EXACT), 1.0f);
}

TEST(ReduceLocal, AveragesAreOverTheOperands) {
  for (int level = 0; level < TUTTI_LEVEL_COUNT; ++level) {
    EXPECT_EQ(local<double>({1.0, 2.0, 6.0}, TUTTI_AVG, tutti_level(level)), 3.0);
    EXPECT_EQ(local<int32_t>({1, 2, -9}, TUTTI_AVG, tutti_level(level)), -2);
    EXPECT_EQ(local<float>({5.0f}, TUTTI_AVG, tutti_level(level)), 5.0f);
  }
}

TEST(ReduceLocal, OneOperandIsTheResult) {
  for (const tutti_level level : {TUTTI_LEVEL_FAST, TUTTI_LEVEL_CANONICAL, TUTTI_LEVEL_EXACT}) {
    EXPECT_EQ(local<int32_t>({7}, TUTTI_SUM, level), 7);
    for (const tutti_op op : {TUTTI_LAND, TUTTI_LOR, TUTTI_LXOR}) {
      EXPECT_EQ(local<int32_t>({7}, op, level), 1);
      EXPECT_EQ(local<int32_t>({0}, op, level), 0);
    }
    EXPECT_TRUE(std::signbit(local<float>({-0.0f}, TUTTI_SUM, level)));
  }
}

TEST(ReduceLocal, TakesEveryTypeAndOperatorInPlaceOrNot) {
  std::mt19937_64 random(5);
  for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
    for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
      const auto dtype = tutti_dtype(t);
      const auto op = tutti_op(o);
      if (tutti_op_supports(op, dtype) == 0) continue;
      const size_t bytes = 50 * tutti_dtype_size(dtype);
      std::vector<std::vector<uint8_t>> vectors(3, std::vector<uint8_t>(bytes));
      for (auto& vector : vectors) {
        for (uint8_t& byte : vector) byte = uint8_t(random());
      }
      const void* operands[] = {vectors[0].data(), vectors[1].data(), vectors[2].data()};
      std::vector<uint8_t> out(bytes);
      for (const tutti_level level : {TUTTI_LEVEL_FAST, TUTTI_LEVEL_CANONICAL}) {
        ASSERT_EQ(tutti_reduce_local(operands, 3, out.data(), 50, dtype, op, level), TUTTI_OK);
      }
      ASSERT_EQ(
          tutti_reduce_local(operands, 3, vectors[1].data(), 50, dtype, op, TUTTI_LEVEL_CANONICAL),
          TUTTI_OK);
      EXPECT_EQ(vectors[1], out) << tutti_dtype_name(dtype) << " " << tutti_op_name(op);
    }
  }
}

// Writes down how its operands met.
void bracket(const void* lower, const void* higher, void* out, size_t count, tutti_dtype,
             void* context) {
  auto& texts = *static_cast<std::vector<std::string>*>(context);
  for (size_t i = 0; i < count; ++i) {
    uint16_t a = 0, b = 0;
    std::memcpy(&a, static_cast<const uint16_t*>(lower) + i, sizeof(a));
    std::memcpy(&b, static_cast<const uint16_t*>(higher) + i, sizeof(b));
    const auto result = uint16_t(texts.size());
    texts.push_back("(" + texts[a] + texts[b] + ")");
    std::memcpy(static_cast<uint16_t*>(out) + i, &result, sizeof(result));
  }
}

TEST(ReduceLocal, CombinesByTheProgramsOperatorsFromTheLeftOrByTheTree) {
  std::vector<std::string> texts = {"a", "b", "c", "d", "e", "f", "g"};
  tutti_op op = TUTTI_OP_COUNT;
  ASSERT_EQ(tutti_op_create(bracket, &texts, 0, &op), TUTTI_OK);
  const auto of = [&](size_t n, tutti_level level) {
    uint16_t values[7] = {0, 1, 2, 3, 4, 5, 6}, out = 0;
    const void* operands[7];
    for (size_t k = 0; k < n; ++k) operands[k] = &values[k];
    EXPECT_EQ(tutti_reduce_local(operands, n, &out, 1, TUTTI_UINT16, op, level), TUTTI_OK);
    return texts[out];
  };
  EXPECT_EQ(of(1, TUTTI_LEVEL_CANONICAL), "a");
  EXPECT_EQ(of(2, TUTTI_LEVEL_CANONICAL), "(ab)");
  EXPECT_EQ(of(3, TUTTI_LEVEL_CANONICAL), "((ab)c)");
  EXPECT_EQ(of(4, TUTTI_LEVEL_CANONICAL), "((ab)(cd))");
  EXPECT_EQ(of(5, TUTTI_LEVEL_CANONICAL), "(((ab)c)(de))");
  EXPECT_EQ(of(6, TUTTI_LEVEL_CANONICAL), "(((ab)(cd))(ef))");
  EXPECT_EQ(of(7, TUTTI_LEVEL_CANONICAL), "(((ab)(cd))((ef)g))");
  EXPECT_EQ(of(5, TUTTI_LEVEL_FAST), "((((ab)c)d)e)");
  EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
}

TEST(ReduceLocal, RefusesWrongArguments) {
  float a[4] = {1, 2, 3, 4}, b[4] = {}, out[4] = {};
  const void* operands[] = {a, b};
  const auto refused = [&](tutti_status expected, const char* text, const void* const* list,
                           size_t n, void* to, size_t count, tutti_dtype dtype, tutti_op op,
                           tutti_level level) {
    EXPECT_EQ(tutti_reduce_local(list, n, to, count, dtype, op, level), expected) << text;
    EXPECT_STREQ(tutti_last_error(), text);
  };
  const auto sum = TUTTI_SUM;
  const auto f32 = TUTTI_FLOAT32;
  const auto fast = TUTTI_LEVEL_FAST;
  refused(TUTTI_INVALID, "unknown type 99", operands, 2, out, 4, tutti_dtype(99), sum, fast);
  refused(TUTTI_INVALID, "unknown operator 99", operands, 2, out, 4, f32, tutti_op(99), fast);
  refused(TUTTI_INVALID, "operator band is not defined on float32", operands, 2, out, 4, f32,
          TUTTI_BAND, fast);
  refused(TUTTI_INVALID, "unknown level 99", operands, 2, out, 4, f32, sum, tutti_level(99));
  refused(TUTTI_UNSUPPORTED, "operator prod on float32 has no form at level exact", operands, 2,
          out, 4, f32, TUTTI_PROD, TUTTI_LEVEL_EXACT);
  tutti_op own = TUTTI_OP_COUNT, scaled = TUTTI_OP_COUNT;
  const auto nothing = [](const void*, const void*, void*, size_t, tutti_dtype, void*) {};
  ASSERT_EQ(tutti_op_create(nothing, nullptr, 1, &own), TUTTI_OK);
  refused(TUTTI_UNSUPPORTED, "operators of the program's own have no form at level exact", operands,
          2, out, 4, f32, own, TUTTI_LEVEL_EXACT);
  EXPECT_EQ(tutti_op_free(own), TUTTI_OK);
  const float scalar = 2;
  tutti_comm alone = nullptr;
  ASSERT_EQ(tutti_comm_create_from_env(nullptr, &alone), TUTTI_OK);
  ASSERT_EQ(tutti_op_create_premul_sum(alone, &scalar, f32, &scaled), TUTTI_OK);
  refused(TUTTI_UNSUPPORTED, "pre-multiplied sums work on communicators only", operands, 2, out, 4,
          f32, scaled, fast);
  EXPECT_EQ(tutti_op_free(scaled), TUTTI_OK);
  EXPECT_EQ(tutti_comm_free(alone), TUTTI_OK);
  refused(TUTTI_INVALID, "0 operands; there must be at least one and fewer than 2^31", operands, 0,
          out, 4, f32, sum, fast);
  refused(TUTTI_INVALID, "2147483648 operands; there must be at least one and fewer than 2^31",
          operands, size_t{1} << 31, out, 4, f32, sum, fast);
  refused(TUTTI_INVALID, "the list of operands is NULL", nullptr, 2, out, 4, f32, sum, fast);
  refused(TUTTI_INVALID, "there is nowhere to put the result", operands, 2, nullptr, 4, f32, sum,
          fast);
  refused(TUTTI_INVALID, "4611686018427387904 elements of float32 are more than memory can hold",
          operands, 2, out, size_t{1} << 62, f32, sum, fast);
  const void* missing[] = {a, nullptr};
  refused(TUTTI_INVALID, "operand 1 is NULL", missing, 2, out, 4, f32, sum, fast);
  refused(TUTTI_INVALID, "the result overlaps operand 0 without being in the same place", operands,
          2, a + 1, 3, f32, sum, fast);
  EXPECT_EQ(tutti_reduce_local(nullptr, 2, nullptr, 0, f32, sum, fast), TUTTI_OK);
}

TEST(Levels, HaveNamesAndTheInverse) {
  EXPECT_STREQ(tutti_level_name(TUTTI_LEVEL_CANONICAL), "canonical");
  EXPECT_EQ(tutti_level_name(TUTTI_LEVEL_COUNT), nullptr);
  tutti_level level = TUTTI_LEVEL_DEFAULT;
  EXPECT_EQ(tutti_level_from_name("layout", &level), TUTTI_OK);
  EXPECT_EQ(level, TUTTI_LEVEL_LAYOUT);
  EXPECT_EQ(tutti_level_from_name("none", &level), TUTTI_INVALID);
  EXPECT_EQ(tutti_level_from_name(nullptr, &level), TUTTI_INVALID);
  EXPECT_EQ(tutti_level_from_name("fast", nullptr), TUTTI_INVALID);
}

TEST(Binned, DepositsElementByElementAndFinishesRounded) {
  std::vector<tutti_binned_float32> sums(3);
  deposit<tutti_binned_float32, float>(sums, std::vector<float>{1.0f, 1e30f, -0.0f});
  deposit<tutti_binned_float32, float>(sums, std::vector<float>{0x1p-30f, 1.0f, -0.0f});
  deposit<tutti_binned_float32, float>(sums, std::vector<float>{-1.0f, -1e30f, -0.0f});
  std::vector<float> out(3);
  finish<tutti_binned_float32, float>(sums, out);
  EXPECT_EQ(out[0], 0x1p-30f);
  EXPECT_EQ(out[1], 0.0f);  // 100 bits below: beyond the bins of float32
  EXPECT_TRUE(std::signbit(out[2]));

  std::vector<tutti_binned_float64> wide(3);
  deposit<tutti_binned_float64, float>(wide, std::vector<float>{1.0f, 1e30f, 2.0f});
  deposit<tutti_binned_float64, double>(wide, std::vector<double>{0.5, 1.0, 0x1p-60});
  deposit<tutti_binned_float64, float>(wide, std::vector<float>{0.0f, -1e30f, -2.0f});
  std::vector<double> exact(3);
  finish<tutti_binned_float64, double>(wide, exact);
  EXPECT_EQ(exact, (std::vector<double>{1.5, 1.0, 0x1p-60}));
}

TEST(Binned, DepositsAWholeVectorInOneAccumulator) {
  std::vector<double> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = (i % 2 == 0 ? 1.0 : -1.0) * double(i);
  tutti_binned_float64 sum{};
  deposit_all<tutti_binned_float64, double>(sum, values);
  double out = 0;
  finish<tutti_binned_float64, double>(std::span(&sum, 1), std::span(&out, 1));
  EXPECT_EQ(out, -500.0);
  std::reverse(values.begin(), values.end());
  tutti_binned_float64 reversed{};
  for (const double value : values) {
    deposit_all<tutti_binned_float64, double>(reversed, std::span(&value, 1));
  }
  EXPECT_EQ(std::memcmp(&sum, &reversed, sizeof(sum)), 0);
}

TEST(Binned, TakesAndGivesEveryFloatingPointType) {
  const uint16_t half = 0x3E00, brain = 0x3FC0;  // 1.5
  for (const tutti_dtype accumulator : {TUTTI_BINNED_FLOAT32, TUTTI_BINNED_FLOAT64}) {
    tutti_binned_float64 place{};
    ASSERT_EQ(tutti_binned_deposit(&place, accumulator, &half, 1, TUTTI_FLOAT16), TUTTI_OK);
    ASSERT_EQ(tutti_binned_deposit(&place, accumulator, &brain, 1, TUTTI_BFLOAT16), TUTTI_OK);
    uint16_t bits = 0;
    ASSERT_EQ(tutti_binned_finish(&place, accumulator, &bits, 1, TUTTI_FLOAT16), TUTTI_OK);
    EXPECT_EQ(bits, 0x4200);
    ASSERT_EQ(tutti_binned_finish(&place, accumulator, &bits, 1, TUTTI_BFLOAT16), TUTTI_OK);
    EXPECT_EQ(bits, 0x4040);
    float single = 0;
    ASSERT_EQ(tutti_binned_finish(&place, accumulator, &single, 1, TUTTI_FLOAT32), TUTTI_OK);
    EXPECT_EQ(single, 3.0f);
    double wide = 0;
    ASSERT_EQ(tutti_binned_finish(&place, accumulator, &wide, 1, TUTTI_FLOAT64), TUTTI_OK);
    EXPECT_EQ(wide, 3.0);
  }
}

TEST(Binned, RefusesWrongArguments) {
  tutti_binned_float32 sums[2] = {};
  float values[2] = {1, 2};
  const auto refused = [&](const char* text, void* accumulators, tutti_dtype accumulator,
                           void* data, size_t count, tutti_dtype dtype) {
    EXPECT_EQ(tutti_binned_deposit(accumulators, accumulator, data, count, dtype), TUTTI_INVALID);
    EXPECT_STREQ(tutti_last_error(), text);
    EXPECT_EQ(tutti_binned_deposit_all(accumulators, accumulator, data, count, dtype),
              TUTTI_INVALID);
    EXPECT_STREQ(tutti_last_error(), text);
    EXPECT_EQ(tutti_binned_finish(accumulators, accumulator, data, count, dtype), TUTTI_INVALID);
    EXPECT_STREQ(tutti_last_error(), text);
  };
  const auto binned = TUTTI_BINNED_FLOAT32;
  const auto f32 = TUTTI_FLOAT32;
  refused("unknown type 99", sums, tutti_dtype(99), values, 2, f32);
  refused("unknown type 98", sums, binned, values, 2, tutti_dtype(98));
  refused("float32 is not a type of accumulators; allowed: binned_float32, binned_float64", sums,
          f32, values, 2, f32);
  refused("accumulators take and give floating-point numbers, not int32", sums, binned, values, 2,
          TUTTI_INT32);
  refused("accumulators take and give floating-point numbers, not binned_float32", sums, binned,
          values, 2, binned);
  refused("the accumulators are NULL", nullptr, binned, values, 2, f32);
  refused("the values are NULL", sums, binned, nullptr, 2, f32);
  refused("1152921504606846976 elements of binned_float32 are more than memory can hold", sums,
          binned, values, size_t{1} << 60, f32);
  double wide[2] = {};
  EXPECT_EQ(tutti_binned_deposit(sums, binned, wide, 2, TUTTI_FLOAT64), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "binned_float32 has no room for float64; use binned_float64");
  EXPECT_EQ(tutti_binned_deposit_all(sums, binned, wide, 2, TUTTI_FLOAT64), TUTTI_INVALID);
  std::memset(&sums[1], 0xFF, sizeof(sums[1]));
  EXPECT_EQ(tutti_binned_finish(sums, binned, values, 2, f32), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(),
               "accumulator 1 holds what no sum does; zeroed memory is an empty one");
  EXPECT_EQ(tutti_binned_deposit(nullptr, binned, nullptr, 0, f32), TUTTI_OK);
  EXPECT_EQ(tutti_binned_deposit_all(nullptr, binned, nullptr, 0, f32), TUTTI_OK);
  EXPECT_EQ(tutti_binned_finish(nullptr, binned, nullptr, 0, f32), TUTTI_OK);
  const std::vector<float> three(3);
  std::vector<tutti_binned_float32> two(2);
  EXPECT_THROW((deposit<tutti_binned_float32, float>(two, three)), error);
}

// Leaves of every exponent, with a few infinities' worth of cancellation; dealt to the ranks anew
// for each number of them.
template <class B, class T>
class Leaves {
 public:
  Leaves(size_t leaves, size_t count) : count_(count), leaves_(leaves, std::vector<T>(count)) {
    std::mt19937_64 random(99);
    constexpr int range = std::numeric_limits<T>::max_exponent;
    for (auto& leaf : leaves_) {
      for (T& value : leaf) {
        const auto exponent = int(random() % uint64_t(2 * range - 8)) - range;
        value = std::ldexp(T(int64_t(random())), exponent - 60);
      }
    }
  }

  // What the rank's share of the leaves sums to.
  std::vector<B> share(int rank, int nranks) const {
    std::vector<B> sums(count_);
    std::mt19937_64 random(static_cast<uint64_t>(nranks));  // every rank the same
    for (const auto& leaf : leaves_) {
      if (int(random() % uint64_t(nranks)) == rank) {
        deposit<B, T>(sums, leaf);
      }
    }
    return sums;
  }

 private:
  size_t count_;
  std::vector<std::vector<T>> leaves_;
};

class BinnedAllreduce : public ::testing::TestWithParam<const char*> {};

template <class B, class T>
void check_rank(const Leaves<B, T>& leaves, const std::vector<B>& expected, int rank, int nranks,
                tutti_comm comm) {
  const size_t count = expected.size(), bytes = count * sizeof(B);
  const std::vector<B> mine = leaves.share(rank, nranks);
  std::vector<B> sum(count);
  for (const std::string& name : algorithms_of("allreduce")) {
    for (const uint32_t flags : {0u, TUTTI_CALL_UNFUSED}) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = name.c_str();
      config.flags = flags;
      ASSERT_EQ(tutti_allreduce_with(mine.data(), sum.data(), count, dtype_of<B>, TUTTI_SUM, comm,
                                     &config),
                TUTTI_OK)
          << name << ": " << sentence(comm);
      ASSERT_EQ(std::memcmp(sum.data(), expected.data(), bytes), 0)
          << name << ", " << nranks << " ranks, " << count << " accumulators";
    }
  }
  const int root = nranks - 1;
  ASSERT_EQ(tutti_reduce(mine.data(), sum.data(), count, dtype_of<B>, TUTTI_SUM, root, comm),
            TUTTI_OK);
  if (rank == root) {
    ASSERT_EQ(std::memcmp(sum.data(), expected.data(), bytes), 0);
  }
}

template <class B, class T>
void expect_the_same_bits_everywhere(const char* transports) {
  std::vector<Leaves<B, T>> leaves;
  std::vector<std::vector<B>> expected;
  for (const size_t count : {1, 7, 700, 4001}) {
    leaves.emplace_back(23, count);
    expected.push_back(leaves.back().share(0, 1));
  }
  for (int nranks = 1; nranks <= 9; ++nranks) {
    on_comm(nranks, transports, [&](int rank, tutti_comm comm) {
      for (size_t i = 0; i < leaves.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(check_rank(leaves[i], expected[i], rank, nranks, comm));
      }
    });
  }
}

TEST_P(BinnedAllreduce, Float32HasEqualBitsForAnyAlgorithmAndNumberOfRanks) {
  expect_the_same_bits_everywhere<tutti_binned_float32, float>(GetParam());
}

TEST_P(BinnedAllreduce, Float64HasEqualBitsForAnyAlgorithmAndNumberOfRanks) {
  expect_the_same_bits_everywhere<tutti_binned_float64, double>(GetParam());
}

TEST_P(BinnedAllreduce, OtherOperatorsAreRefused) {
  on_comm(2, GetParam(), [&](int, tutti_comm comm) {
    tutti_binned_float32 mine{}, sum{};
    EXPECT_EQ(tutti_allreduce(&mine, &sum, 1, TUTTI_BINNED_FLOAT32, TUTTI_MAX, comm),
              TUTTI_INVALID);
    EXPECT_EQ(sentence(comm), "operator max is not defined on binned_float32");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, BinnedAllreduce, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tutti
