// Binned sums: equal bits for any order and grouping, the stated error, and the specials.
#include "lib/reduce/binned.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/reduce/exact_oracle.h"

namespace tutti::reduce {
namespace {

struct Single {
  using Value = float;
  using Bits = uint32_t;
  using Sum = BinnedFloat32;
  static constexpr reference::Float type{23, 8};
  static constexpr FloatFormat format = kFloat32;
};

struct Double {
  using Value = double;
  using Bits = uint64_t;
  using Sum = BinnedFloat64;
  static constexpr reference::Float type{52, 11};
  static constexpr FloatFormat format = kFloat64;
};

template <class Type>
void add(typename Type::Sum& sum, typename Type::Bits pattern) {
  binned_add(&sum, Type::format, pattern);
}

template <class Sum>
bool same_bits(const Sum& a, const Sum& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

template <class Type>
typename Type::Sum sum_of(const std::vector<typename Type::Bits>& patterns) {
  typename Type::Sum sum{};
  for (const auto bits : patterns) add<Type>(sum, bits);
  return sum;
}

template <class Type>
class BinnedSum : public testing::Test {
 protected:
  using Value = typename Type::Value;
  using Bits = typename Type::Bits;
  using Sum = typename Type::Sum;
  using Patterns = std::vector<Bits>;
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  static Sum of(const std::vector<double>& values) {
    Sum sum{};
    for (const double value : values) add<Type>(sum, bits(value));
    return sum;
  }
  static Bits rounded(const Sum& sum) { return Bits(binned_round(sum, Type::format)); }
  static Bits bits(double value) { return std::bit_cast<Bits>(Value(value)); }

  // Values that are finite, of any exponent (`window` < 0) or of exponents within `window` bits.
  Patterns finite(size_t n, int window = -1) {
    constexpr int mantissa = Type::type.mantissa_bits;
    const int fields = (1 << Type::type.exponent_bits) - 1;
    const int range = window < 0 ? fields : std::max(1, window - mantissa);
    const int lowest = int(random_() % uint64_t(fields - range + 1));
    Patterns patterns(n);
    for (Bits& pattern : patterns) {
      const auto field = Bits(lowest) + Bits(random_() % uint64_t(range));
      const auto any = Bits(random_());
      const Bits mask = Bits((Bits{1} << Type::type.exponent_bits) - 1) << mantissa;
      pattern = Bits(any & ~mask) | Bits(field << mantissa);
    }
    return patterns;
  }

  // Adds [begin, end) by a random tree of merges, each leaf a run of single additions.
  Sum by_tree(const Patterns& patterns, size_t begin, size_t end) {
    if (end - begin <= 1 || random_() % 4 == 0) {
      return sum_of<Type>(
          Patterns(patterns.begin() + ptrdiff_t(begin), patterns.begin() + ptrdiff_t(end)));
    }
    const size_t middle = begin + random_() % (end - begin + 1);
    Sum left = by_tree(patterns, begin, middle), right = by_tree(patterns, middle, end);
    if (random_() % 2 == 0) std::swap(left, right);
    binned_merge(&left, right);
    return left;
  }

  std::mt19937_64 random_{20240303};
};

using Types = testing::Types<Single, Double>;
TYPED_TEST_SUITE(BinnedSum, Types);

template <class Type>
void any_order_and_grouping(std::vector<typename Type::Bits> patterns, uint64_t seed) {
  using Sum = typename Type::Sum;
  const Sum expected = sum_of<Type>(patterns);
  RC_ASSERT(binned_valid(expected));
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 4; ++trial) {
    std::shuffle(patterns.begin(), patterns.end(), random);
    // Parts of any sizes, some empty, merged in any order, each into either.
    std::vector<Sum> parts(1 + random() % 9);
    for (const auto bits : patterns) {
      add<Type>(parts[random() % parts.size()], bits);
    }
    while (parts.size() > 1) {
      std::swap(parts[random() % parts.size()], parts.back());
      const Sum last = parts.back();
      parts.pop_back();
      binned_merge(&parts[random() % parts.size()], last);
    }
    RC_ASSERT(same_bits(parts[0], expected));
  }
}

RC_GTEST_PROP(BinnedSumOfFloat32, HasEqualBitsForAnyOrderAndGrouping,
              (std::vector<uint32_t> patterns, uint64_t seed)) {
  any_order_and_grouping<Single>(std::move(patterns), seed);
}

RC_GTEST_PROP(BinnedSumOfFloat64, HasEqualBitsForAnyOrderAndGrouping,
              (std::vector<uint64_t> patterns, uint64_t seed)) {
  any_order_and_grouping<Double>(std::move(patterns), seed);
}

// RapidCheck's numbers are small at first; here every exponent is as likely as another.
TYPED_TEST(BinnedSum, HasEqualBitsOverTheWholeRange) {
  for (int trial = 0; trial < 2000; ++trial) {
    auto patterns = this->finite(this->random_() % 40);
    const auto expected = sum_of<TypeParam>(patterns);
    std::shuffle(patterns.begin(), patterns.end(), this->random_);
    const auto sum = this->by_tree(patterns, 0, patterns.size());
    ASSERT_TRUE(same_bits(sum, expected)) << trial;
    ASSERT_TRUE(binned_valid(sum));
  }
}

// Whatever the bits: peers may send anything.
RC_GTEST_PROP(BinnedMerge, IsAssociativeAndCommutativeOnAnyBits,
              (const std::vector<uint64_t>& words, uint64_t seed)) {
  std::mt19937_64 random(seed);
  BinnedFloat64 sums[3];
  size_t word = 0;
  const auto next = [&] {
    const uint64_t given = word < words.size() ? words[word] : random() >> (random() % 64);
    ++word;
    return given;
  };
  for (BinnedFloat64& sum : sums) {
    sum.head = next();
    for (uint64_t& bin : sum.bins) bin = next();
  }
  const auto merged = [](BinnedFloat64 a, const BinnedFloat64& b) {
    binned_merge(&a, b);
    return a;
  };
  const auto [a, b, c] = sums;
  // The reserved bits are dropped by the first merge.
  RC_ASSERT(same_bits(merged(a, b), merged(b, a)));
  RC_ASSERT(same_bits(merged(merged(a, b), c), merged(a, merged(b, c))));
}

TYPED_TEST(BinnedSum, IsTheExactOneRoundedOnceWhereTheBinsReach) {
  constexpr int window = TypeParam::Sum::kWidth * (TypeParam::Sum::kBins - 1);
  for (int trial = 0; trial < 1000; ++trial) {
    const auto patterns = this->finite(1 + this->random_() % 30, window);
    const std::vector<uint64_t> wide(patterns.begin(), patterns.end());
    ASSERT_EQ(this->rounded(sum_of<TypeParam>(patterns)),
              reference::exact_sum(TypeParam::type, wide))
        << trial;
  }
}

// In whole units of the least float64, so that nothing of the check rounds.
reference::Whole magnitude_of(const reference::Float& type, uint64_t pattern) {
  const auto field = int(pattern >> type.mantissa_bits);
  uint64_t mantissa = pattern & ((uint64_t{1} << type.mantissa_bits) - 1);
  if (field != 0) mantissa |= uint64_t{1} << type.mantissa_bits;
  const int least = 2 - (1 << (type.exponent_bits - 1)) - type.mantissa_bits;
  reference::Whole whole;
  whole.add(mantissa, 1074 + least + std::max(field - 1, 0));
  return whole;
}

// |what the accumulator holds - exact sum| <= n * largest * 2^-(width * (bins - 1) + 1); asked of
// the accumulator itself, all in units of 2^-(1074 + 160) so that the bound is a whole number.
TYPED_TEST(BinnedSum, KeepsTheErrorThatItsHeaderStates) {
  using Sum = typename TypeParam::Sum;
  using reference::Whole;
  constexpr int bound_bits = Sum::kWidth * (Sum::kBins - 1) + 1;
  for (int trial = 0; trial < 500; ++trial) {
    const auto patterns = this->finite(2 + this->random_() % 30);
    const Sum sum = sum_of<TypeParam>(patterns);
    Whole plus, minus, largest;
    for (const auto pattern : patterns) {
      constexpr auto sign = typename TypeParam::Bits{1} << (TypeParam::type.bits() - 1);
      const Whole magnitude = magnitude_of(TypeParam::type, pattern & ~sign);
      ((pattern & sign) != 0 ? minus : plus).add(magnitude);
      if (magnitude.compare(largest) > 0) largest = magnitude;
    }
    // The bins with the opposite sign on the same scales: what is left is the error.
    const int index = int(sum.head >> 56);
    for (int k = 0; k < Sum::kBins && k < index; ++k) {
      const auto bin = int64_t(sum.bins[k]);
      const int shift = 1074 + Sum::kLeastExponent + (index - 1 - k) * Sum::kWidth;
      (bin < 0 ? plus : minus).add(bin < 0 ? -uint64_t(bin) : uint64_t(bin), shift);
    }
    if (plus.compare(minus) < 0) std::swap(plus, minus);
    plus.subtract(minus);
    Whole error, bound;
    for (int doubling = 0; doubling < bound_bits; ++doubling) {
      Whole twice = plus;
      twice.add(plus);
      plus = twice;
    }
    for (size_t i = 0; i < patterns.size(); ++i) bound.add(largest);
    ASSERT_LE(plus.compare(bound), 0) << trial;
  }
}

TYPED_TEST(BinnedSum, SpecialValues) {
  const double infinity = this->infinity, nan = std::nan("0x77");
  const auto round_of = [&](const std::vector<double>& values) {
    return this->rounded(this->of(values));
  };
  EXPECT_EQ(round_of({}), this->bits(0.0));
  EXPECT_EQ(round_of({-0.0, -0.0}), this->bits(-0.0));
  EXPECT_EQ(round_of({-0.0, 0.0}), this->bits(0.0));
  EXPECT_EQ(round_of({1.0, -1.0, -0.0}), this->bits(0.0));
  EXPECT_EQ(round_of({1.0, infinity, -5.0}), this->bits(infinity));
  EXPECT_EQ(round_of({1.0, -infinity}), this->bits(-infinity));
  EXPECT_EQ(round_of({-infinity, infinity}), TypeParam::format.nan);
  EXPECT_EQ(round_of({1.0, -nan}), TypeParam::format.nan);
  const double greatest = double(std::numeric_limits<typename TypeParam::Value>::max());
  const double least = double(std::numeric_limits<typename TypeParam::Value>::denorm_min());
  EXPECT_EQ(round_of({greatest, greatest}), this->bits(infinity));
  EXPECT_EQ(round_of({greatest, greatest, -greatest}), this->bits(greatest));
  EXPECT_EQ(round_of({-greatest, -greatest, -greatest}), this->bits(-infinity));
  EXPECT_EQ(round_of({least, least, least}), this->bits(3 * least));
  EXPECT_EQ(round_of({1.0, -least}), this->bits(1.0));
  EXPECT_EQ(round_of({greatest, least, -greatest}), this->bits(0.0));  // beyond the bins
}

TYPED_TEST(BinnedSum, RoundsToOtherFormatsOnce) {
  // Just above halfway between two float16 numbers, which rounding to float32 first would lose.
  const auto sum = this->of({2048.0, 1.0, 0x1p-20});
  EXPECT_EQ(binned_round(sum, kFloat16), 0x6801u);
  EXPECT_EQ(binned_round(this->of({2048.0, 1.0}), kFloat16), 0x6800u);
  EXPECT_EQ(binned_round(this->of({256.0, 1.0}), kBFloat16), 0x4380u);
  EXPECT_EQ(binned_round(this->of({1e30}), kFloat16), 0x7C00u);
  EXPECT_EQ(binned_round(this->of({1.0, 0x1p-40}), kFloat64),
            std::bit_cast<uint64_t>(1.0 + 0x1p-40));
}

TYPED_TEST(BinnedSum, TakesNarrowerFormatsAsTheyAre) {
  typename TypeParam::Sum sum{};
  binned_add(&sum, kFloat16, 0x0001);      // 2^-24
  binned_add(&sum, kBFloat16, 0xC040);     // -3
  binned_add(&sum, kFloat8E4M3, 0x38);     // 1
  binned_add(&sum, kFloat8E5M2, 0x01);     // 2^-16
  binned_add(&sum, kFloat32, 0x40000000);  // 2
  EXPECT_EQ(this->rounded(sum), this->bits(0x1p-16 + 0x1p-24));
  binned_add(&sum, kFloat8E5M2, 0x7C);
  EXPECT_EQ(this->rounded(sum), this->bits(this->infinity));
  binned_add(&sum, kFloat8E4M3, 0xFF);
  EXPECT_EQ(this->rounded(sum), TypeParam::format.nan);
}

TYPED_TEST(BinnedSum, OfTheLargestCountIsRightAndOfOneMoreNan) {
  typename TypeParam::Sum sum = this->of({1.5}), power = sum;
  // 2^39 - 1 copies: 1 + 2 + 4 + ... + 2^38.
  for (int doubling = 1; doubling < 39; ++doubling) {
    binned_merge(&power, power);
    binned_merge(&sum, power);
  }
  EXPECT_EQ(this->rounded(sum), this->bits(1.5 * (0x1p39 - 1)));
  add<TypeParam>(sum, this->bits(1.0));
  EXPECT_EQ(this->rounded(sum), TypeParam::format.nan);
  binned_merge(&sum, sum);
  EXPECT_EQ(this->rounded(sum), TypeParam::format.nan);
  EXPECT_TRUE(binned_valid(sum));
}

TYPED_TEST(BinnedSum, BitsThatNoAdditionGivesAreNotValidAndRoundToNan) {
  using Sum = typename TypeParam::Sum;
  const Sum good = this->of({1.0, 2.0});
  EXPECT_TRUE(binned_valid(good));
  EXPECT_TRUE(binned_valid(Sum{}));
  Sum bad = good;
  bad.head |= uint64_t{0xFF} << 56;  // no such bin
  EXPECT_FALSE(binned_valid(bad));
  EXPECT_EQ(this->rounded(bad), TypeParam::format.nan);
  bad = good;
  bad.head |= uint64_t{1} << 55;  // reserved
  EXPECT_FALSE(binned_valid(bad));
  bad = good;
  bad.head &= ~((uint64_t{1} << 48) - 1);  // something out of nothing
  EXPECT_FALSE(binned_valid(bad));
  bad = Sum{};
  bad.bins[0] = 1;
  EXPECT_FALSE(binned_valid(bad));
  std::memset(&bad, 0xFF, sizeof(bad));
  EXPECT_FALSE(binned_valid(bad));
}

}  // namespace
}  // namespace tutti::reduce
