// The types of elements: their layout in memory, the type that they are computed in, and their
// arithmetic, with the same bits as lib/reduce/reduce.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lib/device/kernels/both.h"

namespace tutti::device {

// A format has Element, the type in memory; Value, the type that it is computed in; widen() and
// narrow() between the two, of which narrow() makes every NaN the canonical one; and the operations
// on values that it allows.

template <class T>
struct Integer {
  using Element = T;
  using Value = T;
  using Unsigned = std::make_unsigned_t<T>;
  // Unsigned, because narrow types would be promoted to int, whose products overflow.
  using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t, Unsigned>;

  TUTTI_ON_BOTH static T widen(T x) { return x; }
  TUTTI_ON_BOTH static T narrow(T x) { return x; }
  TUTTI_ON_BOTH static T add(T a, T b) {
    return static_cast<T>(static_cast<Unsigned>(Wrapping(a) + Wrapping(b)));
  }
  TUTTI_ON_BOTH static T multiply(T a, T b) {
    return static_cast<T>(static_cast<Unsigned>(Wrapping(a) * Wrapping(b)));
  }
  TUTTI_ON_BOTH static T least(T a, T b) { return b < a ? b : a; }
  TUTTI_ON_BOTH static T greatest(T a, T b) { return a < b ? b : a; }
  TUTTI_ON_BOTH static T divide(T x, uint32_t divisor) {
    // Wide enough for every value of both; C++ division truncates toward zero.
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>(static_cast<Wide>(x) / static_cast<Wide>(divisor));
  }
};

template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Unsigned = uint32_t;
  using Signed = int32_t;
  static constexpr Unsigned sign = 0x80000000, infinity = 0x7F800000, nan = 0x7FC00000;
};
template <>
struct FloatBits<double> {
  using Unsigned = uint64_t;
  using Signed = int64_t;
  static constexpr Unsigned sign = 0x8000000000000000, infinity = 0x7FF0000000000000,
                            nan = 0x7FF8000000000000;
};

template <class T>
TUTTI_ON_BOTH T canonical_nan(T x) {
  return x == x ? x : bits_as<T>(FloatBits<T>::nan);
}

// a where a < b, else b.
template <class T>
TUTTI_ON_BOTH T lesser_or_second(T a, T b) {
  return a < b ? a : b;
}

// The minimum with -0 < +0, and some NaN where either is one. The results of the two orders differ
// only for zeros of both signs, where OR gives -0, and for a NaN, which OR keeps.
template <class T>
TUTTI_ON_BOTH T float_least(T a, T b) {
  using Unsigned = typename FloatBits<T>::Unsigned;
  return bits_as<T>(bits_as<Unsigned>(lesser_or_second(a, b)) |
                    bits_as<Unsigned>(lesser_or_second(b, a)));
}

template <class T>
TUTTI_ON_BOTH T negative(T x) {
  return bits_as<T>(bits_as<typename FloatBits<T>::Unsigned>(x) ^ FloatBits<T>::sign);
}

// The arithmetic of all floating-point types, on values of float or double.
template <class T>
struct FloatArithmetic {
  TUTTI_ON_BOTH static T add(T a, T b) { return a + b; }
  TUTTI_ON_BOTH static T multiply(T a, T b) { return a * b; }
  TUTTI_ON_BOTH static T least(T a, T b) { return float_least(a, b); }
  TUTTI_ON_BOTH static T greatest(T a, T b) {
    return negative(float_least(negative(a), negative(b)));
  }
};

template <class T>
struct Real : FloatArithmetic<T> {
  using Element = T;
  using Value = T;
  TUTTI_ON_BOTH static T widen(T x) { return x; }
  TUTTI_ON_BOTH static T narrow(T x) { return canonical_nan(x); }
  TUTTI_ON_BOTH static T divide(T x, uint32_t divisor) {
    return canonical_nan(x / static_cast<T>(divisor));
  }
};

constexpr float power_of_two(int exponent) {
  float power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

// A float of 8 or 16 bits that is computed in float32. `special`: the least magnitude that is not
// finite; `nan`: the canonical NaN.
template <class Bits, int mantissa, int bias, uint32_t special, uint32_t nan>
struct NarrowFloat : FloatArithmetic<float> {
  using Element = Bits;
  using Value = float;
  static constexpr int dropped = 23 - mantissa;  // bits of float32's mantissa
  static constexpr int above = 32 - 8 * int(sizeof(Bits));
  static constexpr uint32_t sign = uint32_t{1} << (8 * sizeof(Bits) - 1);
  static constexpr uint32_t rebias = uint32_t(127 - bias) << 23;
  static constexpr uint32_t least_normal = uint32_t(128 - bias) << 23;
  static constexpr float scale = power_of_two(127 - bias);
  // The float32 whose last place is that of the subnormals.
  static constexpr float step = power_of_two(24 - bias - mantissa);

  TUTTI_ON_BOTH static float widen(Bits x) {
    const uint32_t magnitude = x & (sign - 1);
    // The shifted exponent is too small by the difference of the biases, also for a subnormal.
    const float number = bits_as<float>(magnitude << dropped) * scale;
    const uint32_t all_ones = magnitude >= special ? 0x7F800000u : 0;
    return bits_as<float>(bits_as<uint32_t>(number) | all_ones | (x & sign) << above);
  }

  // To nearest even: adds just under half of the last place kept, or half where that place is odd.
  TUTTI_ON_BOTH static Bits narrow(float x) {
    const uint32_t bits = bits_as<uint32_t>(x);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t odd = magnitude >> dropped & 1;
    const uint32_t rounded = magnitude + ((1u << (dropped - 1)) - 1) + odd;
    // An overflow, and infinity, is at least `special` and is clamped to it.
    const uint32_t rebiased = (rounded - rebias) >> dropped;
    const uint32_t normal = rebiased < special ? rebiased : special;
    const uint32_t value = magnitude < least_normal ? narrow_subnormal(magnitude) : normal;
    if (magnitude > 0x7F800000u || value >= nan) return static_cast<Bits>(nan);
    return static_cast<Bits>(value | (bits >> above & sign));
  }

  // The addition rounds to the last place of a subnormal.
  TUTTI_ON_BOTH static uint32_t narrow_subnormal(uint32_t magnitude) {
    return bits_as<uint32_t>(bits_as<float>(magnitude) + step) - bits_as<uint32_t>(step);
  }

  TUTTI_ON_BOTH static Bits divide(Bits x, uint32_t divisor) {
    return narrow(widen(x) / static_cast<float>(divisor));
  }
};
using E4M3 = NarrowFloat<uint8_t, 3, 7, 0x7F, 0x7F>;
using E5M2 = NarrowFloat<uint8_t, 2, 15, 0x7C, 0x7E>;
using BFloat16 = NarrowFloat<uint16_t, 7, 127, 0x7F80, 0x7FC0>;
using PlainFloat16 = NarrowFloat<uint16_t, 10, 15, 0x7C00, 0x7E00>;

// GPUs have instructions for the conversions, with the same bits but for NaN.
struct Float16 : PlainFloat16 {
  TUTTI_ON_BOTH static float widen(uint16_t x) {
#ifdef __CUDA_ARCH__
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
#else
    return PlainFloat16::widen(x);
#endif
  }
  TUTTI_ON_BOTH static uint16_t narrow(float x) {
#ifdef __CUDA_ARCH__
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return x == x ? bits : uint16_t{0x7E00};
#else
    return PlainFloat16::narrow(x);
#endif
  }
  TUTTI_ON_BOTH static uint16_t divide(uint16_t x, uint32_t divisor) {
    return narrow(widen(x) / static_cast<float>(divisor));
  }
};

template <class T>
struct ComplexNumber {
  T real, imaginary;
};

template <class T>
struct Complex {
  using Element = ComplexNumber<T>;
  using Value = Element;
  TUTTI_ON_BOTH static Value widen(const Value& x) { return x; }
  TUTTI_ON_BOTH static Value narrow(const Value& x) {
    return {canonical_nan(x.real), canonical_nan(x.imaginary)};
  }
  TUTTI_ON_BOTH static Value add(const Value& a, const Value& b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
  }
  TUTTI_ON_BOTH static Value multiply(const Value& a, const Value& b) {
    return {a.real * b.real - a.imaginary * b.imaginary,
            a.real * b.imaginary + a.imaginary * b.real};
  }
  TUTTI_ON_BOTH static Value divide(const Value& x, uint32_t divisor) {
    return {Real<T>::divide(x.real, divisor), Real<T>::divide(x.imaginary, divisor)};
  }
};

// A value with its index. `Key`: the value as a signed integer of the same size, so that comparing
// keys gives the order of the operator.
template <class Value_, class Index>
struct LocatedValue {
  Value_ value;
  Index index;
};
template <class T>
struct LocatedInteger {
  using Element = LocatedValue<T, T>;
  using Key = T;
  template <bool least_wins>
  TUTTI_ON_BOTH static Key key(T value) {
    return value;
  }
  template <bool least_wins>
  TUTTI_ON_BOTH static T value(Key key) {
    return key;
  }
};

// The bits of a float, with the magnitude bits of negative ones inverted: keys order as the numbers
// do, -0 just below +0. No number has the extreme keys, so the one that wins over all numbers
// stands for every NaN.
template <class T>
struct LocatedFloat {
  using Bits = FloatBits<T>;
  using Key = typename Bits::Signed;
  using Element = LocatedValue<T, Key>;
  static constexpr Key most = static_cast<Key>(Bits::sign - 1);

  template <bool least_wins>
  TUTTI_ON_BOTH static constexpr Key nan_key() {
    return least_wins ? -most - 1 : most;
  }
  TUTTI_ON_BOTH static Key turned(Key bits) { return bits < 0 ? bits ^ most : bits; }
  template <bool least_wins>
  TUTTI_ON_BOTH static Key key(T value) {
    return value == value ? turned(bits_as<Key>(value)) : nan_key<least_wins>();
  }
  template <bool least_wins>
  TUTTI_ON_BOTH static T value(Key key) {
    return key == nan_key<least_wins>() ? bits_as<T>(Bits::nan) : bits_as<T>(turned(key));
  }
};

}  // namespace tutti::device
