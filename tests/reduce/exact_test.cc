// Exact sums of every instruction set against whole numbers of 2,400 bits, in every order.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "lib/base/types.h"
#include "lib/reduce/exact.h"
#include "lib/reduce/reduce.h"
#include "tests/reduce/exact_oracle.h"

namespace tutti {
namespace {

using reference::exact_sum;
using reference::Float;
using Patterns = std::vector<uint64_t>;

constexpr Float kHalf{10, 5}, kBrain{7, 8}, kSingle{23, 8}, kDouble{52, 11};
constexpr Float kE4M3{3, 4, true}, kE5M2{2, 5};

struct Case {
  const char* name;
  Float type;
  ReduceFn reduce;
  tutti_dtype dtype = TUTTI_DTYPE_COUNT;  // float8 is none yet
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// How the numbers of one sum lie to each other.
enum class Values { near, spread, any_bits, edges, cancelling };
constexpr Values kAllValues[] = {Values::near, Values::spread, Values::any_bits, Values::edges,
                                 Values::cancelling};

class ExactSum : public testing::TestWithParam<Case> {
 protected:
  uint64_t mask() const { return ~uint64_t{0} >> (64 - GetParam().type.bits()); }

  // `n` patterns for one sum.
  Patterns values(size_t n, Values kind) {
    const Float& type = GetParam().type;
    const int exponents = 1 << type.exponent_bits;
    Patterns result(n);
    for (size_t k = 0; k < n; ++k) {
      const uint64_t any = random_() & mask();
      const auto with_exponent = [&](int field) {
        const uint64_t fields = (uint64_t{1} << type.exponent_bits) - 1;
        return (any & ~(fields << type.mantissa_bits)) | uint64_t(field) << type.mantissa_bits;
      };
      switch (kind) {
        case Values::near:
          result[k] = with_exponent(exponents / 2 - int(random_() % 3));
          break;
        case Values::spread:
          result[k] = with_exponent(int(random_() % uint64_t(exponents - 1)));
          break;
        case Values::any_bits:
          result[k] = any;
          break;
        case Values::edges:
          result[k] = edges_[any % edges_.size()];
          break;
        case Values::cancelling:  // what remains is small against what went in
          result[k] = k % 2 == 1 && random_() % 4 != 0
                          ? result[k - 1] ^ uint64_t { 1 } << (type.bits() - 1)
                          : with_exponent(int(random_() % uint64_t(exponents - 1)));
      }
    }
    return result;
  }

  // The sums of `columns`, each a sum's operands, by one call.
  Patterns reduced(const std::vector<Patterns>& columns, bool in_place = false) {
    const auto size = size_t(GetParam().type.bits()) / 8;
    const size_t n = columns[0].size();
    std::vector<std::vector<uint8_t>> operands(n, std::vector<uint8_t>(columns.size() * size));
    std::vector<const void*> pointers;
    for (size_t k = 0; k < n; ++k) {
      for (size_t i = 0; i < columns.size(); ++i) {
        std::memcpy(&operands[k][i * size], &columns[i][k], size);
      }
      pointers.push_back(operands[k].data());
    }
    std::vector<uint8_t> separate(columns.size() * size);
    std::vector<uint8_t>& out = in_place ? operands[n / 2] : separate;
    GetParam().reduce(out.data(), pointers.data(), n, columns.size());
    Patterns result(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) std::memcpy(&result[i], &out[i * size], size);
    return result;
  }

  void SetUp() override {
    const Float& type = GetParam().type;
    const uint64_t top = uint64_t{1} << (type.bits() - 1);
    const uint64_t one = ((uint64_t{1} << (type.exponent_bits - 1)) - 1) << type.mantissa_bits;
    const uint64_t normal = uint64_t{1} << type.mantissa_bits;
    for (const uint64_t magnitude :
         {uint64_t{0}, uint64_t{1}, uint64_t{2}, normal - 1, normal, normal + 1, one, one - 1,
          one + 1, one + normal, type.infinity() - 1, type.infinity() - normal}) {
      edges_.insert(edges_.end(), {magnitude, magnitude | top});
    }
    edges_.push_back(type.infinity());
    edges_.push_back(type.infinity() | top);
    if (type.infinity() != type.nan()) edges_.push_back(type.infinity() + 1);
  }

  std::mt19937_64 random_{20240302};
  Patterns edges_;
};

TEST_P(ExactSum, IsTheRoundedExactOneInEveryOrder) {
  for (const Values kind : kAllValues) {
    for (const size_t n : {2, 3, 4, 7, 8, 16, 33}) {
      std::vector<Patterns> columns(97);
      for (Patterns& column : columns) column = values(n, kind);
      Patterns expected;
      for (const Patterns& column : columns) {
        expected.push_back(exact_sum(GetParam().type, column));
      }
      ASSERT_EQ(reduced(columns), expected) << n << " operands, kind " << int(kind);
      for (int order = 0; order < 3; ++order) {
        for (Patterns& column : columns) std::shuffle(column.begin(), column.end(), random_);
        ASSERT_EQ(reduced(columns, order == 0), expected) << n << " operands, kind " << int(kind);
      }
    }
  }
}

TEST_P(ExactSum, OfEveryPairOfEdgeValues) {
  std::vector<Patterns> columns;
  Patterns expected;
  for (const uint64_t a : edges_) {
    for (const uint64_t b : edges_) columns.push_back({a, b});
  }
  for (const Patterns& column : columns) expected.push_back(exact_sum(GetParam().type, column));
  EXPECT_EQ(reduced(columns), expected);
}

TEST_P(ExactSum, TakesVectorsOfAnySizeAndManyOperands) {
  for (const size_t elements : {0, 1, 2, 5, 255, 256, 257, 700}) {
    std::vector<Patterns> columns(elements);
    Patterns expected;
    for (Patterns& column : columns) {
      column = values(5, Values::near);
      expected.push_back(exact_sum(GetParam().type, column));
    }
    if (elements != 0) {
      EXPECT_EQ(reduced(columns, true), expected) << elements;
    }
  }
  for (const Values kind : {Values::near, Values::spread, Values::cancelling}) {
    const std::vector<Patterns> many = {values(9000, kind), values(9000, kind)};
    EXPECT_EQ(reduced(many),
              (Patterns{exact_sum(GetParam().type, many[0]), exact_sum(GetParam().type, many[1])}));
  }
}

TEST_P(ExactSum, OneOperandIsCopiedBitForBit) {
  const uint64_t payload = mask();  // a NaN with every bit set
  EXPECT_EQ(reduced({{payload}}), Patterns{payload});
}

TEST_P(ExactSum, SpecialValues) {
  const Float& type = GetParam().type;
  const uint64_t minus = uint64_t{1} << (type.bits() - 1);
  const uint64_t one = ((uint64_t{1} << (type.exponent_bits - 1)) - 1) << type.mantissa_bits;
  const uint64_t greatest = type.infinity() - 1;
  const bool has_infinity = !type.finite_top;
  const uint64_t too_large = has_infinity ? type.infinity() : type.nan();
  EXPECT_EQ(reduced({{minus, minus, minus}}), Patterns{minus});
  EXPECT_EQ(reduced({{minus, 0, minus}}), Patterns{0});
  EXPECT_EQ(reduced({{one, one | minus, minus}}), Patterns{0});
  EXPECT_EQ(reduced({{greatest, greatest, one}}), Patterns{too_large});
  EXPECT_EQ(reduced({{greatest, greatest, greatest | minus}}), Patterns{greatest});
  EXPECT_EQ(reduced({{one, type.nan() | minus, one}}), Patterns{type.nan()});
  EXPECT_EQ(reduced({{1, 1, minus}}), Patterns{2});
  if (has_infinity) {
    EXPECT_EQ(reduced({{one, type.infinity(), greatest}}), Patterns{type.infinity()});
    EXPECT_EQ(reduced({{type.infinity() | minus, greatest, greatest}}),
              Patterns{type.infinity() | minus});
    EXPECT_EQ(reduced({{type.infinity() | minus, one, type.infinity()}}), Patterns{type.nan()});
  }
}

// Sums for which neither float64 nor two of them are enough.
TEST(ExactSumOfDoubles, NeedsMoreThanTwoFloat64) {
  for (const char* target : reduce_target_names()) {
    const ReduceFn reduce = find_kernels(TUTTI_FLOAT64, TUTTI_SUM, target).reduce_exact;
    const std::vector<double> values = {0x1p1000,  0x1p500,  0x1p-1074,
                                        -0x1p1000, 0x1p-500, -0x1p500};
    std::vector<const void*> operands;
    operands.reserve(values.size());
    for (const double& value : values) operands.push_back(&value);
    double sum = 0;
    reduce(&sum, operands.data(), operands.size(), 1);
    EXPECT_EQ(sum, 0x1p-500) << target;
    // Between two float64, and the last operand decides.
    const std::vector<double> halfway = {0x1p300, 0x1p247, 0x1p-1074};
    for (size_t k = 0; k < 3; ++k) operands[k] = &halfway[k];
    reduce(&sum, operands.data(), 3, 1);
    EXPECT_EQ(sum, 0x1p300 + 0x1p248) << target;
    reduce(&sum, operands.data(), 2, 1);
    EXPECT_EQ(sum, 0x1p300) << target;
  }
}

TEST(ExactKernels, SumTheTwoPartsOfComplexNumbersApart) {
  constexpr size_t n = 5, elements = 333;
  std::vector<std::vector<float>> parts(n, std::vector<float>(2 * elements));
  std::vector<const void*> operands;
  uint32_t state = 1;
  for (auto& part : parts) {
    for (float& value : part) {
      state = state * 1664525u + 1013904223u;
      value = std::ldexp(float(state >> 8) - 8e6f, int(state % 40) - 20);
    }
    operands.push_back(part.data());
  }
  std::vector<float> as_floats(2 * elements), as_complex(2 * elements);
  find_kernels(TUTTI_FLOAT32, TUTTI_SUM)
      .reduce_exact(as_floats.data(), operands.data(), n, 2 * elements);
  find_kernels(TUTTI_COMPLEX64, TUTTI_SUM)
      .reduce_exact(as_complex.data(), operands.data(), n, elements);
  EXPECT_EQ(as_complex, as_floats);
}

TEST(ExactKernels, AreTheOrdinaryOnesWhereOrderDoesNotMatterAndNoneForProductsOfFloats) {
  for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
    for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
      const auto dtype = static_cast<tutti_dtype>(t);
      const auto op = static_cast<tutti_op>(o);
      const Kernels kernels = find_kernels(dtype, op);
      const bool rounds = dtype_is_float(dtype) || dtype_kind(dtype) == DtypeKind::complex;
      if (rounds && op == TUTTI_PROD) {
        EXPECT_EQ(kernels.reduce_exact, nullptr);
      } else if (rounds && op_supports(op, dtype) && (op == TUTTI_SUM || op == TUTTI_AVG)) {
        EXPECT_NE(kernels.reduce_exact, nullptr);
        EXPECT_NE(kernels.reduce_exact, kernels.reduce_fn);
      } else {
        EXPECT_EQ(kernels.reduce_exact, kernels.reduce_fn);
      }
    }
  }
}

TEST(Float8Units, AreWholeNumbersThatRoundBackToThemselves) {
  EXPECT_EQ(reduce::e4m3_units(0x01), 1);              // 2^-9
  EXPECT_EQ(reduce::e4m3_units(0x38), 512);            // 1
  EXPECT_EQ(reduce::e4m3_units(0xFE), -448 * 512);     // the least
  EXPECT_EQ(reduce::e5m2_units(0x01), 1);              // 2^-16
  EXPECT_EQ(reduce::e5m2_units(0x7B), 57344LL << 16);  // the greatest
  for (unsigned pattern = 0; pattern < 256; ++pattern) {
    const auto bits = uint8_t(pattern);
    if (bits == 0x80) continue;
    if ((bits & 0x7F) <= 0x7E) {
      EXPECT_EQ(reduce::e4m3_from_units(reduce::e4m3_units(bits)), bits);
    }
    if ((bits & 0x7F) <= 0x7B) {
      EXPECT_EQ(reduce::e5m2_from_units(reduce::e5m2_units(bits)), bits);
    }
  }
}

TEST(Float8Units, RoundToNearestEvenAndOverflow) {
  EXPECT_EQ(reduce::e4m3_from_units(464 * 512), 0x7E);  // halfway to 480, which it does not have
  EXPECT_EQ(reduce::e4m3_from_units(464 * 512 + 1), 0x7F);  // NaN
  EXPECT_EQ(reduce::e4m3_from_units(-464 * 512 - 1), 0x7F);
  EXPECT_EQ(reduce::e4m3_from_units(17 * 512), 0x58);  // 17 is halfway between 16 and 18
  EXPECT_EQ(reduce::e4m3_from_units(19 * 512), 0x5A);
  EXPECT_EQ(reduce::e5m2_from_units(61440LL << 16), 0x7C);
  EXPECT_EQ(reduce::e5m2_from_units((61440LL << 16) - 1), 0x7B);
  EXPECT_EQ(reduce::e5m2_from_units(-(61440LL << 16)), 0xFC);
}

std::vector<Case> cases() {
  std::vector<Case> cases = {{"e4m3", kE4M3, reduce::reduce_exact_e4m3},
                             {"e5m2", kE5M2, reduce::reduce_exact_e5m2}};
  static std::vector<std::string> names;
  names.reserve(64);
  for (const char* target : reduce_target_names()) {
    const std::pair<tutti_dtype, Float> types[] = {{TUTTI_FLOAT16, kHalf},
                                                   {TUTTI_BFLOAT16, kBrain},
                                                   {TUTTI_FLOAT32, kSingle},
                                                   {TUTTI_FLOAT64, kDouble}};
    for (const auto& [dtype, type] : types) {
      names.push_back(std::string(target) + "_" + dtype_name(dtype));
      cases.push_back(
          {names.back().c_str(), type, find_kernels(dtype, TUTTI_SUM, target).reduce_exact, dtype});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, ExactSum, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace tutti
