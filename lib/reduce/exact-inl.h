// The exactly rounded sum of all operands: the `exact` level. Compiled once per instruction set
// (hence the toggled guard).
//
// Additions are made in float64 with their errors (D. Knuth's TwoSum: six operations, no branch).
// Where no error is left the sum is exact; float16 sums of few operands always are, being
// fixed-point numbers of 40 bits. A block with errors is added again with a second sum that takes
// them; where that one has errors too, or where infinities and NaN take part, the element goes
// through a long accumulator. An exact sum does not depend on the order, so neither do the bits.
//
// The loops are plain ones over blocks that stay in the L1 cache; the compiler vectorises them.
#if defined(TUTTI_REDUCE_EXACT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_EXACT_INL_H
#undef TUTTI_REDUCE_EXACT_INL_H
#else
#define TUTTI_REDUCE_EXACT_INL_H
#endif

#include <cstring>

#include "hwy/highway.h"
#include "lib/reduce/exact.h"
#include "lib/reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

template <class To, class From>
HWY_INLINE To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

template <class T>
HWY_INLINE T load_lane(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

struct SumAndError {
  double sum, error;
};

// The error is exact unless something overflows or is not finite; then it is not zero.
HWY_INLINE SumAndError two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// Any bit but the sign's.
HWY_INLINE uint64_t unless_zero(double x) { return same_bits<uint64_t>(x) << 1; }

// sum + error of a two_sum, rounded to odd (S. Boldo, G. Melquiond 2008): rounding that to a
// narrower type gives the same as rounding the exact sum.
HWY_INLINE double to_odd(SumAndError exact) {
  const auto bits = same_bits<uint64_t>(exact.sum);
  const auto away = same_bits<uint64_t>(exact.error) >> 63 == bits >> 63;
  const uint64_t odd = (bits & 1) != 0 ? bits : away ? bits + 1 : bits - 1;
  return same_bits<double>(exact.error != 0 ? odd : bits);
}

// Rounds float64 to float32, to odd; any value but NaN.
HWY_INLINE uint32_t to_odd_float(double x) {
  const auto nearest = static_cast<float>(x);
  const auto bits = same_bits<uint32_t>(nearest);
  const auto wide = static_cast<double>(nearest);
  const bool above = (x < 0 ? -wide : wide) > (x < 0 ? -x : x);
  return wide == x ? bits : (above ? bits - 1 : bits) | 1u;
}

// What exact sums need of a format: widening an element to float64, rounding float64 to the format,
// how many elements add up in float64 without an error, and the bit patterns.
template <class Format>
struct Exact {
  static constexpr bool kDefined = false;
};

template <>
struct Exact<Plain<float>> {
  static constexpr bool kDefined = true;
  using Bits = uint32_t;
  static constexpr size_t kMostWithoutError = 1;
  static constexpr FloatFormat kFormat = kFloat32;
  static HWY_INLINE double widen(const uint8_t* from) { return double{load_lane<float>(from)}; }
  static HWY_INLINE Bits narrow(double x) {
    return x == x ? same_bits<Bits>(static_cast<float>(x)) : Bits(kFormat.nan);
  }
  static HWY_INLINE Bits narrow(SumAndError exact) { return narrow(to_odd(exact)); }
};

template <>
struct Exact<Plain<double>> {
  static constexpr bool kDefined = true;
  using Bits = uint64_t;
  static constexpr size_t kMostWithoutError = 1;
  static constexpr FloatFormat kFormat = kFloat64;
  static HWY_INLINE double widen(const uint8_t* from) { return load_lane<double>(from); }
  static HWY_INLINE Bits narrow(double x) {
    return x == x ? same_bits<Bits>(x) : Bits(kFormat.nan);
  }
  static HWY_INLINE Bits narrow(SumAndError exact) { return narrow(exact.sum); }
};

constexpr size_t kExactBlock = 256;

// Adds a block's operands with one sum; false if it is not exact.
template <class E>
bool add_once(double* sum, const void* const* operands, size_t n, size_t at, size_t count) {
  constexpr size_t kBytes = sizeof(typename E::Bits);
  const uint8_t* from = static_cast<const uint8_t*>(operands[0]) + at * kBytes;
  for (size_t i = 0; i < count; ++i) sum[i] = E::widen(from + i * kBytes);
  if (n <= E::kMostWithoutError) {
    for (size_t k = 1; k < n; ++k) {
      from = static_cast<const uint8_t*>(operands[k]) + at * kBytes;
      for (size_t i = 0; i < count; ++i) sum[i] += E::widen(from + i * kBytes);
    }
    return true;
  }
  uint64_t errors = 0;
  for (size_t k = 1; k < n; ++k) {
    from = static_cast<const uint8_t*>(operands[k]) + at * kBytes;
    for (size_t i = 0; i < count; ++i) {
      const SumAndError next = two_sum(sum[i], E::widen(from + i * kBytes));
      sum[i] = next.sum;
      errors |= unless_zero(next.error);
    }
  }
  return errors == 0;
}

// The same with a second sum, of the errors; `inexact`: not 0 for elements for which that has
// errors too.
template <class E>
void add_twice(double* sum, double* rest, uint64_t* inexact, const void* const* operands, size_t n,
               size_t at, size_t count) {
  constexpr size_t kBytes = sizeof(typename E::Bits);
  const uint8_t* from = static_cast<const uint8_t*>(operands[0]) + at * kBytes;
  for (size_t i = 0; i < count; ++i) {
    sum[i] = E::widen(from + i * kBytes);
    rest[i] = 0;
    inexact[i] = 0;
  }
  for (size_t k = 1; k < n; ++k) {
    from = static_cast<const uint8_t*>(operands[k]) + at * kBytes;
    for (size_t i = 0; i < count; ++i) {
      const SumAndError next = two_sum(sum[i], E::widen(from + i * kBytes));
      const SumAndError errors = two_sum(rest[i], next.error);
      sum[i] = next.sum;
      rest[i] = errors.sum;
      inexact[i] |= unless_zero(errors.error);
    }
  }
}

template <class E>
void reduce_exact_block(typename E::Bits* results, const void* const* operands, size_t n, size_t at,
                        size_t count) {
  constexpr size_t kBytes = sizeof(typename E::Bits);
  double sum[kExactBlock];
  if (add_once<E>(sum, operands, n, at, count)) {
    for (size_t i = 0; i < count; ++i) results[i] = E::narrow(sum[i]);
    return;
  }
  double rest[kExactBlock];
  uint64_t inexact[kExactBlock];
  add_twice<E>(sum, rest, inexact, operands, n, at, count);
  for (size_t i = 0; i < count; ++i) {
    if (inexact[i] != 0) {
      LongSum exact;
      for (size_t k = 0; k < n; ++k) {
        exact.add(E::widen(static_cast<const uint8_t*>(operands[k]) + (at + i) * kBytes));
      }
      results[i] = static_cast<typename E::Bits>(exact.round(E::kFormat));
    } else if (rest[i] == 0) {
      results[i] = E::narrow(sum[i]);  // keeps a -0, which adding a zero would not
    } else {
      results[i] = E::narrow(two_sum(sum[i], rest[i]));
    }
  }
}

template <class Format>
void reduce_exact(void* out, const void* const* operands, size_t n, size_t elements) {
  using E = Exact<Format>;
  constexpr size_t kBytes = sizeof(typename E::Bits);
  if (n == 1) {
    if (out != operands[0] && elements != 0) std::memcpy(out, operands[0], elements * kBytes);
    return;
  }
  // A block's operands may be read more than once, and `out` may be one of them: its results are
  // stored when it is done.
  typename E::Bits results[kExactBlock];
  for (size_t at = 0; at < elements; at += kExactBlock) {
    const size_t count = elements - at < kExactBlock ? elements - at : kExactBlock;
    reduce_exact_block<E>(results, operands, n, at, count);
    std::memcpy(static_cast<uint8_t*>(out) + at * kBytes, results, count * kBytes);
  }
}

// The kernel of an operator at the `exact` level; null where there is none.
template <class Format, class Op>
ReduceFn exact_of() {
  if constexpr (!(kRounds<Op> && hwy::IsFloat<typename Format::Lane>())) {
    return reduce_many<Format, Op>;  // does not depend on the order
  } else if constexpr (std::is_same_v<Op, Sum> && Exact<Format>::kDefined) {
    return reduce_exact<Format>;
  } else {
    return nullptr;
  }
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_REDUCE_EXACT_INL_H
