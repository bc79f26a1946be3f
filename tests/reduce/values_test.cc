// The promises of reduce.h in figures, and the choice of the instruction set.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/types.h"
#include "lib/reduce/reduce.h"

namespace tutti {
namespace {

// The fold of one element per operand by the named instruction set.
template <class T>
T fold(const char* target, tutti_dtype dtype, tutti_op op, const std::vector<T>& values) {
  std::vector<const void*> operands;
  operands.reserve(values.size());
  for (const T& value : values) operands.push_back(&value);
  T out{};
  find_kernels(dtype, op, target).reduce(&out, operands.data(), operands.size(), 1);
  return out;
}

template <class T>
T divided(const char* target, tutti_dtype dtype, T value, uint32_t divisor) {
  find_kernels(dtype, TUTTI_AVG, target).divide(&value, 1, divisor);
  return value;
}

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

class Values : public testing::TestWithParam<const char*> {};

TEST_P(Values, SumsAreLeftFoldsInOperandOrder) {
  const char* target = GetParam();
  EXPECT_EQ(fold<float>(target, TUTTI_FLOAT32, TUTTI_SUM, {1e30f, -1e30f, 1.0f}), 1.0f);
  EXPECT_EQ(fold<float>(target, TUTTI_FLOAT32, TUTTI_SUM, {1.0f, 1e30f, -1e30f}), 0.0f);
  EXPECT_EQ(fold<double>(target, TUTTI_FLOAT64, TUTTI_PROD, {1e300, 1e-300, 1e300, 1e300}),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(fold<double>(target, TUTTI_FLOAT64, TUTTI_PROD, {1e-300, 1e-300, 1e300}), 0.0);
}

TEST_P(Values, NanResultsAreThePositiveQuietNanWithoutPayload) {
  const char* target = GetParam();
  const float infinity = std::numeric_limits<float>::infinity();
  const float negative_nan = -std::nanf("0x123");
  for (const tutti_op op : {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX}) {
    for (const std::vector<float>& operands : {std::vector<float>{negative_nan, 1.0f},
                                               {1.0f, negative_nan},
                                               {1.0f, negative_nan, 2.0f},
                                               {negative_nan, std::nanf("0x7")},
                                               {-infinity, std::nanf("0x7"), infinity}}) {
      EXPECT_EQ(bits_of(fold<float>(target, TUTTI_FLOAT32, op, operands)), 0x7FC00000u)
          << op_name(op);
    }
  }
  EXPECT_EQ(bits_of(fold<float>(target, TUTTI_FLOAT32, TUTTI_SUM, {infinity, -infinity})),
            0x7FC00000u);
  EXPECT_EQ(bits_of(fold<float>(target, TUTTI_FLOAT32, TUTTI_PROD, {infinity, 0.0f})), 0x7FC00000u);
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_FLOAT16, TUTTI_SUM, {0xFC00, 0x7C00})), 0x7E00);
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_BFLOAT16, TUTTI_MAX, {0xFFFF, 0x7F80})), 0x7FC0);
  EXPECT_EQ(bits_of(divided<float>(target, TUTTI_FLOAT32, negative_nan, 2)), 0x7FC00000u);
}

TEST_P(Values, OneOperandIsCopiedBitForBit) {
  const char* target = GetParam();
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_FLOAT16, TUTTI_SUM, {0xFD55})), 0xFD55);
  EXPECT_EQ((fold<int32_t>(target, TUTTI_INT32, TUTTI_LAND, {7})), 7);
}

TEST_P(Values, MinusZeroIsBelowPlusZero) {
  const char* target = GetParam();
  for (const std::vector<float>& zeros : {std::vector<float>{0.0f, -0.0f}, {-0.0f, 0.0f}}) {
    EXPECT_TRUE(std::signbit(fold<float>(target, TUTTI_FLOAT32, TUTTI_MIN, zeros)));
    EXPECT_FALSE(std::signbit(fold<float>(target, TUTTI_FLOAT32, TUTTI_MAX, zeros)));
    EXPECT_FALSE(std::signbit(fold<float>(target, TUTTI_FLOAT32, TUTTI_SUM, zeros)));
  }
  EXPECT_TRUE(std::signbit(fold<float>(target, TUTTI_FLOAT32, TUTTI_SUM, {-0.0f, -0.0f})));
}

TEST_P(Values, SubnormalsAreKept) {
  const char* target = GetParam();
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(fold<float>(target, TUTTI_FLOAT32, TUTTI_SUM, {least, least}), 2 * least);
  EXPECT_EQ(fold<float>(target, TUTTI_FLOAT32, TUTTI_MIN, {least, 1.0f}), least);
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_FLOAT16, TUTTI_SUM, {0x0001, 0x0001})), 0x0002);
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_BFLOAT16, TUTTI_SUM, {0x0001, 0x0001})), 0x0002);
}

TEST_P(Values, HalvesAccumulateInFloat32AndRoundOnce) {
  const char* target = GetParam();
  // 2048 + 1 is halfway to the next float16: rounded at each step it would stay 2048.
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_FLOAT16, TUTTI_SUM, {0x6800, 0x3C00, 0x3C00})), 0x6801);
  // 256 + 1 the same in bfloat16.
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_BFLOAT16, TUTTI_SUM, {0x4380, 0x3F80, 0x3F80})), 0x4381);
  // Halfway goes to the even neighbour, below and above.
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_BFLOAT16, TUTTI_SUM, {0x4380, 0x3F80})), 0x4380);
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_BFLOAT16, TUTTI_SUM, {0x4381, 0x3F80})), 0x4382);
  // 65504 + 16 is halfway to 65536, which float16 does not have.
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_FLOAT16, TUTTI_SUM, {0x7BFF, 0x4C00})), 0x7C00);
}

TEST_P(Values, Float8AccumulatesInFloat32AndRoundsOnce) {
  const char* target = GetParam();
  const auto e4m3 = [&](tutti_op op, const std::vector<uint8_t>& values) {
    return fold<uint8_t>(target, TUTTI_FLOAT8_E4M3, op, values);
  };
  const auto e5m2 = [&](tutti_op op, const std::vector<uint8_t>& values) {
    return fold<uint8_t>(target, TUTTI_FLOAT8_E5M2, op, values);
  };
  // 16 + 1 is halfway to the next e4m3: rounded at each step it would stay 16.
  EXPECT_EQ(e4m3(TUTTI_SUM, {0x58, 0x38, 0x38}), 0x59);
  EXPECT_EQ(e4m3(TUTTI_SUM, {0x58, 0x38}), 0x58);
  // 8 + 1 the same in e5m2.
  EXPECT_EQ(e5m2(TUTTI_SUM, {0x48, 0x3C, 0x3C}), 0x49);
  EXPECT_EQ(e5m2(TUTTI_SUM, {0x48, 0x3C}), 0x48);
  EXPECT_EQ(e4m3(TUTTI_SUM, {0x01, 0x01}), 0x02) << "subnormals";
  EXPECT_EQ(e5m2(TUTTI_SUM, {0x01, 0x01}), 0x02);
}

TEST_P(Values, Float8OverflowsAsTheOcpFormatsSay) {
  const char* target = GetParam();
  const auto e4m3 = [&](tutti_op op, const std::vector<uint8_t>& values) {
    return fold<uint8_t>(target, TUTTI_FLOAT8_E4M3, op, values);
  };
  const auto e5m2 = [&](tutti_op op, const std::vector<uint8_t>& values) {
    return fold<uint8_t>(target, TUTTI_FLOAT8_E5M2, op, values);
  };
  // 448 is the greatest e4m3; 464 is halfway to 480, and 448 is even.
  EXPECT_EQ(e4m3(TUTTI_SUM, {0x7E, 0x58}), 0x7E);
  EXPECT_EQ(e4m3(TUTTI_SUM, {0x7E, 0x59}), 0x7F);
  EXPECT_EQ(e4m3(TUTTI_SUM, {0xFE, 0xD8}), 0xFE);
  EXPECT_EQ(e4m3(TUTTI_SUM, {0xFE, 0xD9}), 0x7F) << "NaN has no sign";
  EXPECT_EQ(e4m3(TUTTI_PROD, {0x7E, 0xFE}), 0x7F);
  EXPECT_EQ(e4m3(TUTTI_MAX, {0xFF, 0x38}), 0x7F);
  // 57344 is the greatest e5m2; 61440 is halfway to 65536, which is infinity.
  EXPECT_EQ(e5m2(TUTTI_SUM, {0x7B, 0x68}), 0x7B);
  EXPECT_EQ(e5m2(TUTTI_SUM, {0x7B, 0x6C}), 0x7C);
  EXPECT_EQ(e5m2(TUTTI_SUM, {0xFB, 0xEC}), 0xFC);
  EXPECT_EQ(e5m2(TUTTI_SUM, {0x7C, 0xFC}), 0x7E);
}

TEST_P(Values, ComplexProductsAreTheSchoolbookFormula) {
  using Complex = std::array<float, 2>;
  const char* target = GetParam();
  const auto prod = [&](const std::vector<Complex>& values) {
    return fold<Complex>(target, TUTTI_COMPLEX64, TUTTI_PROD, values);
  };
  EXPECT_EQ(prod({{1, 2}, {3, 4}}), (Complex{-5, 10}));
  EXPECT_EQ(prod({{1, 2}, {3, 4}, {0, 1}}), (Complex{-10, -5}));
  // Each product is rounded before the difference: one rounding of the whole would not give 0.
  EXPECT_EQ(prod({{1 + 0x1p-12f, 1}, {1 + 0x1p-12f, 1 + 0x1p-11f}})[0], 0.0f);
  const float infinity = std::numeric_limits<float>::infinity();
  const Complex half_nan = prod({{infinity, 1}, {1, 0}});
  EXPECT_EQ(bits_of(half_nan[0]), bits_of(infinity)) << "inf * 1 - 1 * 0";
  EXPECT_EQ(bits_of(half_nan[1]), 0x7FC00000u) << "inf * 0 + 1 * 1";
}

TEST_P(Values, BoolIsTrueUnlessZeroAndResultsAreZeroOrOne) {
  const char* target = GetParam();
  const auto on = [&](tutti_op op, const std::vector<uint8_t>& values) {
    return int(fold<uint8_t>(target, TUTTI_BOOL, op, values));
  };
  EXPECT_EQ(on(TUTTI_SUM, {2, 255, 1}), 1);
  EXPECT_EQ(on(TUTTI_SUM, {0, 0}), 0);
  EXPECT_EQ(on(TUTTI_PROD, {2, 4}), 1);
  EXPECT_EQ(on(TUTTI_BAND, {2, 4}), 1);
  EXPECT_EQ(on(TUTTI_MIN, {2, 0}), 0);
  EXPECT_EQ(on(TUTTI_MAX, {0, 8}), 1);
  EXPECT_EQ(on(TUTTI_BXOR, {3, 5}), 0);
}

TEST_P(Values, LocatedTiesGiveTheLowerIndexAndNanWins) {
  using Pair = tutti_float32_int32;
  const char* target = GetParam();
  const auto found = [&](tutti_op op, const std::vector<Pair>& values) {
    const Pair pair = fold<Pair>(target, TUTTI_FLOAT32_INT32, op, values);
    return std::pair(bits_of(pair.value), pair.index);
  };
  const auto at = [](float value, int32_t index) { return std::pair(bits_of(value), index); };
  EXPECT_EQ(found(TUTTI_MINLOC, {{2, 0}, {1, 7}, {1, 3}, {1, 5}}), at(1, 3));
  EXPECT_EQ(found(TUTTI_MAXLOC, {{2, 9}, {1, 7}, {2, -4}}), at(2, -4));
  EXPECT_EQ(found(TUTTI_MINLOC, {{0.0f, 0}, {-0.0f, 1}}), at(-0.0f, 1));
  EXPECT_EQ(found(TUTTI_MAXLOC, {{-0.0f, 0}, {0.0f, 1}}), at(0.0f, 1));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const tutti_op op : {TUTTI_MINLOC, TUTTI_MAXLOC}) {
    EXPECT_EQ(found(op, {{-infinity, 0}, {-std::nanf("5"), 8}, {infinity, 1}, {std::nanf(""), 6}}),
              std::pair(0x7FC00000u, 6));
  }
  const auto whole =
      fold<tutti_int64_int64>(target, TUTTI_INT64_INT64, TUTTI_MAXLOC,
                              {{std::numeric_limits<int64_t>::min(), 0}, {-1, 4}, {-1, 2}});
  EXPECT_EQ(whole.value, -1);
  EXPECT_EQ(whole.index, 2);
}

TEST_P(Values, IntegersWrapAround) {
  const char* target = GetParam();
  EXPECT_EQ((fold<int8_t>(target, TUTTI_INT8, TUTTI_SUM, {127, 1})), -128);
  EXPECT_EQ((fold<int8_t>(target, TUTTI_INT8, TUTTI_PROD, {-128, -1})), -128);
  EXPECT_EQ((fold<uint16_t>(target, TUTTI_UINT16, TUTTI_PROD, {0xFFFF, 0xFFFF})), 1);
  EXPECT_EQ(
      (fold<int64_t>(target, TUTTI_INT64, TUTTI_PROD, {std::numeric_limits<int64_t>::min(), -1})),
      std::numeric_limits<int64_t>::min());
}

TEST_P(Values, IntegerAveragesTruncateTowardZero) {
  const char* target = GetParam();
  EXPECT_EQ(divided<int32_t>(target, TUTTI_INT32, -7, 2), -3);
  EXPECT_EQ(divided<int32_t>(target, TUTTI_INT32, 7, 2), 3);
  EXPECT_EQ(divided<int8_t>(target, TUTTI_INT8, -128, 200), 0);
  EXPECT_EQ(divided<int64_t>(target, TUTTI_INT64, std::numeric_limits<int64_t>::min(), 1),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(divided<uint64_t>(target, TUTTI_UINT64, ~uint64_t{0}, 2), ~uint64_t{0} / 2);
}

TEST_P(Values, LogicalOperatorsGiveZeroOrOne) {
  const char* target = GetParam();
  EXPECT_EQ((fold<int32_t>(target, TUTTI_INT32, TUTTI_LAND, {2, 4})), 1);
  EXPECT_EQ((fold<int32_t>(target, TUTTI_INT32, TUTTI_LAND, {2, 0, 4})), 0);
  EXPECT_EQ((fold<int32_t>(target, TUTTI_INT32, TUTTI_LOR, {0, 0, -8})), 1);
  EXPECT_EQ((fold<int32_t>(target, TUTTI_INT32, TUTTI_LXOR, {3, 5, 7})), 1);
  EXPECT_EQ((fold<int32_t>(target, TUTTI_INT32, TUTTI_LXOR, {3, 5, 0})), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, Values, testing::ValuesIn(reduce_target_names().begin(), reduce_target_names().end()),
    [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

TEST(FindKernels, EveryOperatorOfEveryTypeThatHasIt) {
  for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
    for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
      const auto dtype = static_cast<tutti_dtype>(t);
      const auto op = static_cast<tutti_op>(o);
      const Kernels kernels = find_kernels(dtype, op);
      EXPECT_EQ(bool(kernels), op_supports(op, dtype));
      EXPECT_EQ(kernels.reduce_fn != nullptr, op_supports(op, dtype));
      EXPECT_EQ(kernels.reduce2_fn != nullptr, op_supports(op, dtype));
      EXPECT_EQ(kernels.reduce2_twice_fn != nullptr, op_supports(op, dtype));
      EXPECT_EQ(kernels.reduce_canonical != nullptr, op_supports(op, dtype));
      EXPECT_EQ(kernels.divide != nullptr, op == TUTTI_AVG && op_supports(op, dtype));
    }
  }
}

TEST(FindKernels, NoneForUnknownTypesOperatorsAndInstructionSets) {
  EXPECT_EQ(find_kernels(TUTTI_DTYPE_COUNT, TUTTI_SUM).reduce_fn, nullptr);
  EXPECT_EQ(find_kernels(TUTTI_INT8, TUTTI_OP_COUNT).reduce_fn, nullptr);
  EXPECT_EQ(find_kernels(TUTTI_INT8, TUTTI_SUM, "mmx").reduce_fn, nullptr);
}

TEST(Target, TheBestIsChosenUnlessAnotherIsForced) {
  const auto names = reduce_target_names();
  ASSERT_FALSE(names.empty());
  EXPECT_STREQ(reduce_target_name(), names.front());
  const char* last = names.back();
  ASSERT_TRUE(reduce_target_force(last).ok());
  EXPECT_STREQ(reduce_target_name(), last);
  EXPECT_EQ(find_kernels(TUTTI_FLOAT32, TUTTI_SUM).reduce2_fn,
            find_kernels(TUTTI_FLOAT32, TUTTI_SUM, last).reduce2_fn);
  ASSERT_TRUE(reduce_target_force(names.front()).ok());
  EXPECT_EQ(find_kernels(TUTTI_FLOAT32, TUTTI_SUM).reduce2_fn,
            find_kernels(TUTTI_FLOAT32, TUTTI_SUM, names.front()).reduce2_fn);
}

TEST(Target, UnknownNameIsRefusedWithTheNamesThatAreAllowed) {
  const Status status = reduce_target_force("mmx");
  EXPECT_EQ(status.code(), TUTTI_INVALID);
  EXPECT_NE(status.text().find("\"mmx\""), std::string::npos);
  for (const char* name : reduce_target_names()) {
    EXPECT_NE(status.text().find(name), std::string::npos);
  }
  EXPECT_STREQ(reduce_target_name(), reduce_target_names().front());
}

}  // namespace
}  // namespace tutti
