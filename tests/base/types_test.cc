#include "lib/base/types.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

TEST(Types, SizesAndNamesMatchTheHeader) {
  EXPECT_EQ(dtype_size(TUTTI_INT8), 1u);
  EXPECT_EQ(dtype_size(TUTTI_INT16), 2u);
  EXPECT_EQ(dtype_size(TUTTI_INT32), 4u);
  EXPECT_EQ(dtype_size(TUTTI_INT64), 8u);
  EXPECT_EQ(dtype_size(TUTTI_UINT8), 1u);
  EXPECT_EQ(dtype_size(TUTTI_UINT16), 2u);
  EXPECT_EQ(dtype_size(TUTTI_UINT32), 4u);
  EXPECT_EQ(dtype_size(TUTTI_UINT64), 8u);
  EXPECT_EQ(dtype_size(TUTTI_FLOAT16), 2u);
  EXPECT_EQ(dtype_size(TUTTI_BFLOAT16), 2u);
  EXPECT_EQ(dtype_size(TUTTI_FLOAT32), 4u);
  EXPECT_EQ(dtype_size(TUTTI_FLOAT64), 8u);
  EXPECT_EQ(dtype_size(TUTTI_COMPLEX64), 8u);
  EXPECT_EQ(dtype_size(TUTTI_COMPLEX128), 16u);
  EXPECT_EQ(dtype_size(TUTTI_FLOAT8_E4M3), 1u);
  EXPECT_EQ(dtype_size(TUTTI_FLOAT8_E5M2), 1u);
  EXPECT_EQ(dtype_size(TUTTI_BOOL), 1u);
  EXPECT_EQ(dtype_size(TUTTI_FLOAT32_INT32), sizeof(tutti_float32_int32));
  EXPECT_EQ(dtype_size(TUTTI_FLOAT64_INT64), sizeof(tutti_float64_int64));
  EXPECT_EQ(dtype_size(TUTTI_INT32_INT32), sizeof(tutti_int32_int32));
  EXPECT_EQ(dtype_size(TUTTI_INT64_INT64), sizeof(tutti_int64_int64));
  EXPECT_EQ(dtype_size(TUTTI_BINNED_FLOAT32), sizeof(tutti_binned_float32));
  EXPECT_EQ(dtype_size(TUTTI_BINNED_FLOAT64), sizeof(tutti_binned_float64));
  EXPECT_STREQ(dtype_name(TUTTI_BFLOAT16), "bfloat16");
  EXPECT_STREQ(dtype_name(TUTTI_UINT64), "uint64");
  EXPECT_STREQ(op_name(TUTTI_SUM), "sum");
  EXPECT_STREQ(op_name(TUTTI_BXOR), "bxor");
}

TEST(Types, UnknownNumbersHaveNoSizeAndNoName) {
  for (int number : {-1, static_cast<int>(TUTTI_DTYPE_COUNT), 1 << 30}) {
    const auto dtype = static_cast<tutti_dtype>(number);
    EXPECT_FALSE(dtype_known(dtype));
    EXPECT_EQ(dtype_size(dtype), 0u);
    EXPECT_EQ(dtype_name(dtype), nullptr);
    EXPECT_FALSE(op_supports(TUTTI_SUM, dtype));
  }
  for (int number : {-1, static_cast<int>(TUTTI_OP_COUNT), 1 << 30}) {
    const auto op = static_cast<tutti_op>(number);
    EXPECT_FALSE(op_known(op));
    EXPECT_EQ(op_name(op), nullptr);
    EXPECT_FALSE(op_supports(op, TUTTI_INT32));
  }
}

TEST(Types, FromNameIsTheInverseOfName) {
  for (int number = 0; number < TUTTI_DTYPE_COUNT; ++number) {
    const auto dtype = static_cast<tutti_dtype>(number);
    tutti_dtype found = TUTTI_DTYPE_COUNT;
    ASSERT_TRUE(dtype_from_name(dtype_name(dtype), &found).ok());
    EXPECT_EQ(found, dtype);
  }
  for (int number = 0; number < TUTTI_OP_COUNT; ++number) {
    const auto op = static_cast<tutti_op>(number);
    tutti_op found = TUTTI_OP_COUNT;
    ASSERT_TRUE(op_from_name(op_name(op), &found).ok());
    EXPECT_EQ(found, op);
  }
}

TEST(Types, UnknownNameIsRefusedWithTheListOfNames) {
  tutti_dtype dtype = TUTTI_INT8;
  const Status unknown_type = dtype_from_name("float", &dtype);
  EXPECT_EQ(unknown_type.code(), TUTTI_INVALID);
  EXPECT_EQ(unknown_type.text(),
            "unknown type \"float\"; allowed: int8, int16, int32, int64, uint8, uint16, uint32, "
            "uint64, float16, bfloat16, float32, float64, complex64, complex128, float8_e4m3, "
            "float8_e5m2, "
            "bool, float32_int32, float64_int64, int32_int32, int64_int64, binned_float32, "
            "binned_float64");
  tutti_op op = TUTTI_SUM;
  const Status unknown_op = op_from_name("", &op);
  EXPECT_EQ(unknown_op.code(), TUTTI_INVALID);
  EXPECT_EQ(unknown_op.text(),
            "unknown operator \"\"; allowed: sum, prod, min, max, avg, land, lor, lxor, band, bor, "
            "bxor, minloc, maxloc");
}

// What a type has, in words.
std::string operators_of(tutti_dtype dtype) {
  std::string all;
  for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
    const auto op = static_cast<tutti_op>(o);
    if (op_supports(op, dtype)) all += (all.empty() ? "" : " ") + std::string(op_name(op));
  }
  return all;
}

TEST(Types, WhichOperatorsATypeHas) {
  const std::string arithmetic = "sum prod min max avg";
  const std::string logic = "land lor lxor band bor bxor";
  for (int t = 0; t < TUTTI_FLOAT16; ++t) {
    EXPECT_EQ(operators_of(static_cast<tutti_dtype>(t)), arithmetic + " " + logic) << t;
  }
  for (const tutti_dtype dtype : {TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64,
                                  TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2}) {
    EXPECT_EQ(operators_of(dtype), arithmetic) << dtype_name(dtype);
  }
  EXPECT_EQ(operators_of(TUTTI_COMPLEX64), "sum prod avg");
  EXPECT_EQ(operators_of(TUTTI_COMPLEX128), "sum prod avg");
  EXPECT_EQ(operators_of(TUTTI_BOOL), "sum prod min max " + logic);
  for (const tutti_dtype dtype :
       {TUTTI_FLOAT32_INT32, TUTTI_FLOAT64_INT64, TUTTI_INT32_INT32, TUTTI_INT64_INT64}) {
    EXPECT_EQ(operators_of(dtype), "minloc maxloc") << dtype_name(dtype);
  }
  for (const tutti_dtype dtype : {TUTTI_BINNED_FLOAT32, TUTTI_BINNED_FLOAT64}) {
    EXPECT_EQ(operators_of(dtype), "sum") << dtype_name(dtype);
  }
}

TEST(Types, LevelsHaveNames) {
  EXPECT_STREQ(level_name(TUTTI_LEVEL_DEFAULT), "default");
  EXPECT_STREQ(level_name(TUTTI_LEVEL_EXACT), "exact");
  for (int number : {-1, static_cast<int>(TUTTI_LEVEL_COUNT), 1 << 30}) {
    EXPECT_EQ(level_name(static_cast<tutti_level>(number)), nullptr);
  }
  for (int number = 0; number < TUTTI_LEVEL_COUNT; ++number) {
    const auto level = static_cast<tutti_level>(number);
    tutti_level found = TUTTI_LEVEL_COUNT;
    ASSERT_TRUE(level_from_name(level_name(level), &found).ok());
    EXPECT_EQ(found, level);
  }
  tutti_level level = TUTTI_LEVEL_FAST;
  const Status unknown = level_from_name("quick", &level);
  EXPECT_EQ(unknown.code(), TUTTI_INVALID);
  EXPECT_EQ(unknown.text(),
            "unknown level \"quick\"; allowed: default, fast, layout, canonical, exact");
}

TEST(Types, KindOfAType) {
  EXPECT_TRUE(dtype_is_binned(TUTTI_BINNED_FLOAT32));
  EXPECT_FALSE(dtype_is_binned(TUTTI_FLOAT32));
  EXPECT_FALSE(dtype_is_float(TUTTI_BINNED_FLOAT64));
  EXPECT_FALSE(dtype_is_signed(TUTTI_BINNED_FLOAT64));
  EXPECT_TRUE(dtype_is_float(TUTTI_BFLOAT16));
  EXPECT_TRUE(dtype_is_float(TUTTI_FLOAT8_E4M3));
  EXPECT_FALSE(dtype_is_float(TUTTI_UINT16));
  EXPECT_FALSE(dtype_is_float(TUTTI_COMPLEX64));
  EXPECT_TRUE(dtype_is_signed(TUTTI_COMPLEX64));
  EXPECT_FALSE(dtype_is_signed(TUTTI_BOOL));
  EXPECT_TRUE(dtype_is_signed(TUTTI_INT16));
  EXPECT_TRUE(dtype_is_signed(TUTTI_FLOAT64));
  EXPECT_FALSE(dtype_is_signed(TUTTI_UINT8));
}

}  // namespace
}  // namespace tutti
