// The oracle against arithmetic in the types themselves, folded from both ends.
#include "bench/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "tests/support/sanitized.h"

namespace tutti::bench {
namespace {

// bfloat16 in the way that hardware does it: computed in float, the upper half kept (all values
// here are exact, so that rounding never happens).
struct Brain {
  uint16_t bits = 0;
  Brain() = default;
  explicit Brain(float f) {
    uint32_t b;
    std::memcpy(&b, &f, 4);
    EXPECT_EQ(b & 0xffff, 0u) << "not exact in bfloat16: " << f;
    bits = uint16_t(b >> 16);
  }
  // The one of the two neighbours that is nearer, the even one of two as near.
  static Brain nearest(float f) {
    uint32_t b;
    std::memcpy(&b, &f, 4);
    Brain low, high;
    low.bits = uint16_t(b >> 16);
    high.bits = uint16_t(low.bits + 1);
    const double below = std::abs(double(f) - double(float(low)));
    const double above = std::abs(double(float(high)) - double(f));
    if (below == above) return low.bits % 2 ? high : low;
    return below < above ? low : high;
  }
  explicit operator float() const {
    const uint32_t b = uint32_t(bits) << 16;
    float f;
    std::memcpy(&f, &b, 4);
    return f;
  }
};

// float8, the same: every value here is among the 256.
template <int mantissa_bits, int bias>
struct Small {
  uint8_t bits = 0;
  Small() = default;
  explicit Small(float f) {
    // By the value plus 512.
    static const std::array<uint8_t, 1024> patterns = [] {
      std::array<uint8_t, 1024> all{};
      Small pattern;
      for (int i = 0; i < 256; ++i) {
        pattern.bits = uint8_t(i);
        const auto value = float(pattern);
        if (std::fabs(value) < 512 && value == std::floor(value))
          all[size_t(value + 512)] = uint8_t(i);
      }
      all[512] = 0;  // not -0
      return all;
    }();
    if (std::fabs(f) < 512) bits = patterns[size_t(f + 512)];
    EXPECT_EQ(float(*this), f) << "not exact in float8";
  }
  // The nearest of all patterns, of two the even one. Not for infinities.
  static Small nearest(float f) {
    Small best, next;
    for (int i = 0; i < 256; ++i) {
      next.bits = uint8_t(i);
      if (!std::isfinite(float(next)) || (next.bits == 0x80)) continue;
      const float nearer = std::fabs(float(next) - f) - std::fabs(float(best) - f);
      if (nearer < 0 || (nearer == 0 && i % 2 == 0)) best = next;
    }
    return best;
  }
  explicit operator float() const {
    const int exponent = (bits & 0x7f) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    if ((bits & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
    const float magnitude = exponent == 0 ? std::ldexp(float(mantissa), 1 - bias - mantissa_bits)
                                          : std::ldexp(float(mantissa + (1 << mantissa_bits)),
                                                       exponent - bias - mantissa_bits);
    return bits & 0x80 ? -magnitude : magnitude;
  }
};
using E4M3 = Small<3, 7>;
using E5M2 = Small<2, 15>;

// A byte that is true unless 0; computing gives 0 or 1.
struct Truth {
  uint8_t byte = 0;
};

template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<Brain> {
  using type = float;
};
template <>
struct Wide<_Float16> {
  using type = float;
};
template <int mantissa_bits, int bias>
struct Wide<Small<mantissa_bits, bias>> {
  using type = float;
};

Truth apply(tutti_op op, Truth a, Truth b) {
  const int trues = (a.byte != 0) + (b.byte != 0);
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_MAX:
    case TUTTI_LOR:
    case TUTTI_BOR:
      return {uint8_t(trues > 0)};
    case TUTTI_LXOR:
    case TUTTI_BXOR:
      return {uint8_t(trues == 1)};
    default:
      return {uint8_t(trues == 2)};
  }
}
Truth finish(tutti_op, Truth value, int) { return {uint8_t(value.byte != 0)}; }

template <class Pair>
concept located = requires(Pair pair) {
  pair.index;
};

template <located Pair>
Pair apply(tutti_op op, Pair a, Pair b) {
  if (a.value != b.value) return (a.value < b.value) == (op == TUTTI_MINLOC) ? a : b;
  return a.index < b.index ? a : b;
}
template <located Pair>
Pair finish(tutti_op, Pair value, int) {
  return value;
}

template <class R>
std::complex<R> apply(tutti_op op, std::complex<R> a, std::complex<R> b) {
  if (op != TUTTI_PROD) return a + b;
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <class R>
std::complex<R> finish(tutti_op op, std::complex<R> value, int nranks) {
  return op == TUTTI_AVG ? std::complex<R>(value.real() / R(nranks), value.imag() / R(nranks))
                         : value;
}

// One operation, rounded to the storage type.
template <class T>
T apply(tutti_op op, T a_stored, T b_stored) {
  using W = typename Wide<T>::type;
  const W a = static_cast<W>(a_stored), b = static_cast<W>(b_stored);
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVG:
      return T(W(a + b));
    case TUTTI_PROD:
      return T(W(a * b));
    case TUTTI_MIN:
      return T(std::min(a, b));
    case TUTTI_MAX:
      return T(std::max(a, b));
    default:
      break;
  }
  if constexpr (std::is_integral_v<W>) {
    switch (op) {
      case TUTTI_LAND:
        return T(a && b);
      case TUTTI_LOR:
        return T(a || b);
      case TUTTI_LXOR:
        return T(bool(a) != bool(b));
      case TUTTI_BAND:
        return T(a & b);
      case TUTTI_BOR:
        return T(a | b);
      case TUTTI_BXOR:
        return T(a ^ b);
      default:
        break;
    }
  }
  return T();
}

template <class T>
T finish(tutti_op op, T value, int nranks) {
  using W = typename Wide<T>::type;
  if (op == TUTTI_AVG) {
    if constexpr (std::is_integral_v<W>)
      return T(value < T(0) ? -(-int64_t(value) / nranks)
                            : int64_t(uint64_t(value) / uint64_t(nranks)));
    else if constexpr (requires { T::nearest(0.0f); })
      return T::nearest(float(value) / float(nranks));
    else
      return T(W(static_cast<W>(value) / W(nranks)));
  }
  if (op == TUTTI_LAND || op == TUTTI_LOR || op == TUTTI_LXOR)
    return T(W(static_cast<W>(value) != W(0)));
  return value;
}

constexpr size_t count = Oracle::period + 77;  // more than a period

template <class T>
void expect_right(tutti_dtype dtype, tutti_op op, int nranks) {
  SCOPED_TRACE(std::string(tutti_dtype_name(dtype)) + " " + tutti_op_name(op) + " of " +
               std::to_string(nranks));
  std::vector<std::vector<T>> inputs;
  for (int rank = 0; rank < nranks; ++rank) {
    inputs.emplace_back(count);
    Oracle(dtype, op, nranks, rank).fill(inputs.back().data(), count);
  }
  std::vector<T> up(inputs.front()), down(inputs.back());
  for (size_t i = 0; i < count; ++i) {
    for (int rank = 1; rank < nranks; ++rank) {
      up[i] = apply(op, up[i], inputs[size_t(rank)][i]);
      down[i] = apply(op, inputs[size_t(nranks - 1 - rank)][i], down[i]);
    }
    up[i] = finish(op, up[i], nranks);
    down[i] = finish(op, down[i], nranks);
  }
  const Oracle oracle(dtype, op, nranks, 0);
  EXPECT_EQ(oracle.wrong_results(up.data(), count), 0u);
  EXPECT_EQ(oracle.wrong_results(down.data(), count), 0u);
  EXPECT_EQ(oracle.wrong_inputs(inputs[0].data(), count), 0u);

  // What scans give: the first ranks only, whose mean may need rounding.
  std::vector<T> prefix(inputs.front()), result(count);
  for (int ranks = 1; ranks <= nranks; ++ranks) {
    for (size_t i = 0; i < count; ++i) {
      if (ranks > 1) prefix[i] = apply(op, prefix[i], inputs[size_t(ranks - 1)][i]);
      result[i] = finish(op, prefix[i], ranks);
    }
    // An oracle of n ranks folds all of them: under a sanitizer every eighth of the many.
    if (tutti::testing::sanitized && ranks > 16 && ranks % 8 != 0 && ranks != nranks) continue;
    EXPECT_EQ(oracle.wrong_reduction(result.data(), count, ranks, 0), 0u) << ranks << " ranks";
    EXPECT_EQ(oracle.wrong_reduction(result.data() + 50, count - 50, ranks, 50), 0u);
  }
  EXPECT_EQ(oracle.wrong_copy(inputs.back().data() + 50, count - 50, nranks - 1, 50), 0u);
}

template <class T>
void expect_right(tutti_dtype dtype) {
  for (int op = 0; op < TUTTI_OP_COUNT; ++op)
    for (int nranks : {1, 2, 3, 7})
      if (tutti_op_supports(tutti_op(op), dtype)) expect_right<T>(dtype, tutti_op(op), nranks);
}

TEST(Oracle, IsExactInTheNarrowestTypesForManyRanks) {
  expect_right<Brain>(TUTTI_BFLOAT16, TUTTI_SUM, Oracle::most_ranks);
  expect_right<int8_t>(TUTTI_INT8, TUTTI_AVG, 150);
  expect_right<_Float16>(TUTTI_FLOAT16, TUTTI_PROD, 100);
  for (const tutti_op op : {TUTTI_SUM, TUTTI_PROD, TUTTI_AVG, TUTTI_MAX}) {
    expect_right<E4M3>(TUTTI_FLOAT8_E4M3, op, 100);
    expect_right<E5M2>(TUTTI_FLOAT8_E5M2, op, 20);
  }
}

TEST(Oracle, AgreesWithFoldingInTheTypesThemselves) {
  expect_right<int8_t>(TUTTI_INT8);
  expect_right<int16_t>(TUTTI_INT16);
  expect_right<int32_t>(TUTTI_INT32);
  expect_right<int64_t>(TUTTI_INT64);
  expect_right<uint8_t>(TUTTI_UINT8);
  expect_right<uint16_t>(TUTTI_UINT16);
  expect_right<uint32_t>(TUTTI_UINT32);
  expect_right<uint64_t>(TUTTI_UINT64);
  expect_right<_Float16>(TUTTI_FLOAT16);
  expect_right<Brain>(TUTTI_BFLOAT16);
  expect_right<float>(TUTTI_FLOAT32);
  expect_right<double>(TUTTI_FLOAT64);
  expect_right<std::complex<float>>(TUTTI_COMPLEX64);
  expect_right<std::complex<double>>(TUTTI_COMPLEX128);
  expect_right<E4M3>(TUTTI_FLOAT8_E4M3);
  expect_right<E5M2>(TUTTI_FLOAT8_E5M2);
  expect_right<Truth>(TUTTI_BOOL);
  expect_right<tutti_float32_int32>(TUTTI_FLOAT32_INT32);
  expect_right<tutti_float64_int64>(TUTTI_FLOAT64_INT64);
  expect_right<tutti_int32_int32>(TUTTI_INT32_INT32);
  expect_right<tutti_int64_int64>(TUTTI_INT64_INT64);
}

std::vector<float> sum_of_two() {
  std::vector<float> a(count), b(count);
  Oracle(TUTTI_FLOAT32, TUTTI_SUM, 2, 0).fill(a.data(), count);
  Oracle(TUTTI_FLOAT32, TUTTI_SUM, 2, 1).fill(b.data(), count);
  for (size_t i = 0; i < count; ++i) a[i] += b[i];
  return a;
}

TEST(Oracle, CountsEachWrongElement) {
  const Oracle oracle(TUTTI_FLOAT32, TUTTI_SUM, 2, 0);
  std::vector<float> result = sum_of_two();
  for (size_t i : {size_t(0), size_t(17), Oracle::period, count - 1}) result[i] += 1;
  EXPECT_EQ(oracle.wrong_results(result.data(), count), 4u);
}

TEST(Oracle, SeesAMissingRankAndAMisplacedBlock) {
  const Oracle oracle(TUTTI_FLOAT32, TUTTI_SUM, 2, 0);
  std::vector<float> only_one(count);
  oracle.fill(only_one.data(), count);
  EXPECT_GT(oracle.wrong_results(only_one.data(), count), count * 9 / 10);
  std::vector<float> moved = sum_of_two();
  std::rotate(moved.begin(), moved.begin() + 1024, moved.end());
  EXPECT_GT(oracle.wrong_results(moved.data(), count), count * 9 / 10);
}

TEST(Oracle, EveryRankMattersForEveryOperator) {
  for (int op_index = 0; op_index < TUTTI_OP_COUNT; ++op_index) {
    const auto op = tutti_op(op_index);
    if (!tutti_op_supports(op, TUTTI_INT32)) continue;
    constexpr int nranks = 5;
    for (int missing = 0; missing < nranks; ++missing) {
      std::vector<std::vector<int32_t>> inputs(nranks, std::vector<int32_t>(count));
      for (int rank = 0; rank < nranks; ++rank)
        Oracle(TUTTI_INT32, op, nranks, rank).fill(inputs[size_t(rank)].data(), count);
      std::vector<int32_t> result(count);
      for (size_t i = 0; i < count; ++i) {
        bool begun = false;
        for (int rank = 0; rank < nranks; ++rank) {
          if (rank == missing) continue;
          result[i] =
              begun ? apply(op, result[i], inputs[size_t(rank)][i]) : inputs[size_t(rank)][i];
          begun = true;
        }
        result[i] = finish(op, result[i], nranks);
      }
      EXPECT_GT(Oracle(TUTTI_INT32, op, nranks, 0).wrong_results(result.data(), count), 0u)
          << tutti_op_name(op) << " without rank " << missing;
    }
  }
}

}  // namespace
}  // namespace tutti::bench
