// float16 and bfloat16: 16 bits in memory, float32 in registers.
#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/half.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "lib/reduce/canonical-inl.h"
#include "lib/reduce/exact-inl.h"
#include "lib/reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

// Each format has widen and narrow between 16-bit patterns and float32. What is narrowed has been
// through canonical_nan, so a NaN is always 0x7FC00000 there.

struct BFloat16Bits {
  template <class D, class V16>
  static HWY_INLINE hn::VFromD<D> widen(D d, V16 bits) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
  // To nearest even: adds just under half of the last place kept, or half where that place is odd.
  // The canonical NaN stays what it is, the largest numbers carry into infinity.
  template <class D, class V>
  static HWY_INLINE hn::VFromD<hn::Rebind<uint16_t, D>> narrow(D, V v) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<uint16_t, D> d16;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd);
    return hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(rounded)));
  }
  // widen(narrow(v)) without leaving float32. A NaN of any sign from widen or from arithmetic stays
  // a NaN, because its lower half is zero.
  template <class D, class V>
  static HWY_INLINE V round(D d, V v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd);
    return hn::BitCast(d, hn::And(rounded, hn::Set(du, 0xFFFF0000u)));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_SSE4
// F16C rounds to nearest even, whatever the thread's mode.
struct Float16Bits {
  template <class D, class V16>
  static HWY_INLINE hn::VFromD<D> widen(D d, V16 bits) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  }
  template <class D, class V>
  static HWY_INLINE hn::VFromD<hn::Rebind<uint16_t, D>> narrow(D, V v) {
    const hn::Rebind<hwy::float16_t, D> df16;
    return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(df16, v));
  }
  template <class D, class V>
  static HWY_INLINE V round(D d, V v) {
    return widen(d, narrow(d, v));
  }
};
#else
// The same in integers; Highway's own conversion without F16C drops bits instead of rounding.
struct Float16Bits {
  template <class D, class V16>
  static HWY_INLINE hn::VFromD<D> widen(D d, V16 bits) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto wide = hn::PromoteTo(du, bits);
    const auto magnitude = hn::And(wide, hn::Set(du, 0x7FFFu));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(wide, magnitude));
    // The exponents' biases differ by 112; infinity and NaN need 112 more.
    const auto bias = hn::Set(du, 112u << 23);
    const auto shifted = hn::Add(hn::ShiftLeft<13>(magnitude), bias);
    const auto special = hn::VecFromMask(du, hn::Gt(magnitude, hn::Set(du, 0x7BFFu)));
    const auto normal = hn::Add(shifted, hn::And(special, bias));
    // With a zero exponent the value is the mantissa times 2^-24, a normal float32.
    const auto subnormal =
        hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), hn::Set(d, 1.0f / 16777216.0f));
    const auto is_subnormal = hn::VecFromMask(du, hn::Lt(magnitude, hn::Set(du, 0x0400u)));
    const auto value =
        hn::Or(hn::And(is_subnormal, hn::BitCast(du, subnormal)), hn::AndNot(is_subnormal, normal));
    return hn::BitCast(d, hn::Or(value, sign));
  }

  template <class D, class V>
  static HWY_INLINE hn::VFromD<hn::Rebind<uint16_t, D>> narrow(D d, V v) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<uint16_t, D> d16;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
    const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
    // Normal: rounds away 13 bits, as for bfloat16; an overflow, and infinity, is at least
    // infinity's pattern and is clamped to it.
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(du, 0x0FFFu)), odd);
    const auto rebiased = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(du, 112u << 23)));
    const auto normal = hn::Min(rebiased, hn::Set(du, 0x7C00u));
    // Below 2^-14: the last place of 0.5 is that of a subnormal, so adding 0.5 rounds to it.
    const auto half = hn::Set(d, 0.5f);
    const auto sum = hn::Add(hn::BitCast(d, magnitude), half);
    const auto subnormal = hn::Sub(hn::BitCast(du, sum), hn::BitCast(du, half));
    const auto is_subnormal = hn::VecFromMask(du, hn::Lt(magnitude, hn::Set(du, 0x38800000u)));
    const auto is_nan = hn::VecFromMask(du, hn::Gt(magnitude, hn::Set(du, 0x7F800000u)));
    const auto value = hn::Or(hn::And(is_subnormal, subnormal), hn::AndNot(is_subnormal, normal));
    const auto result = hn::Or(value, hn::And(is_nan, hn::Set(du, 0x7E00u)));
    return hn::DemoteTo(d16, hn::BitCast(di, hn::Or(result, sign)));
  }
  template <class D, class V>
  static HWY_INLINE V round(D d, V v) {
    return widen(d, narrow(d, v));
  }
};
#endif

template <class Bits>
struct Half {
  using Lane = float;
  static constexpr size_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const uint8_t* from) {
    return Bits::widen(d, HWY_NAMESPACE::load(hn::Rebind<uint16_t, D>(), from));
  }
  template <class D>
  static HWY_INLINE void store(hn::VFromD<D> v, D d, uint8_t* to) {
    HWY_NAMESPACE::store(Bits::narrow(d, v), hn::Rebind<uint16_t, D>(), to);
  }
  // To the type in memory and back.
  template <class D>
  static HWY_INLINE hn::VFromD<D> round(D d, hn::VFromD<D> v) {
    return Bits::round(d, v);
  }
  template <class D>
  static HWY_INLINE void stream(hn::VFromD<D> v, D d, uint8_t* to) {
    HWY_NAMESPACE::stream(Bits::narrow(d, v), hn::Rebind<uint16_t, D>(), to);
  }
};
using Float16 = Half<Float16Bits>;
using BFloat16 = Half<BFloat16Bits>;

// What Bits does with vectors, for single elements in the loops of exact-inl.h; narrowing starts
// from float32 rounded to odd.
template <>
struct Exact<BFloat16> {
  static constexpr bool kDefined = true;
  using Bits = uint16_t;
  static constexpr size_t kMostWithoutError = 1;
  static constexpr FloatFormat kFormat = kBFloat16;
  static HWY_INLINE double widen(const uint8_t* from) {
    return double{same_bits<float>(uint32_t{load_lane<Bits>(from)} << 16)};
  }
  static HWY_INLINE Bits narrow(double x) {
    const uint32_t bits = to_odd_float(x);
    const uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
    return x == x ? Bits(rounded >> 16) : Bits(kFormat.nan);
  }
  static HWY_INLINE Bits narrow(SumAndError exact) { return narrow(to_odd(exact)); }
};

template <>
struct Exact<Float16> {
  static constexpr bool kDefined = true;
  using Bits = uint16_t;
  // Multiples of 2^-24 below 2^16: with 2^13 of them still 53 bits.
  static constexpr size_t kMostWithoutError = 8192;
  static constexpr FloatFormat kFormat = kFloat16;
  static HWY_INLINE double widen(const uint8_t* from) {
    const uint32_t bits = load_lane<Bits>(from);
    const uint32_t magnitude = bits & 0x7FFFu;
    // The exponent is too small by 112, also that of a subnormal. Masks, because branches would
    // keep the compiler from vectorising.
    const float value = same_bits<float>(magnitude << 13) * 0x1p112f;
    const uint32_t special = 0x7F800000u & (0u - uint32_t{magnitude > 0x7BFFu});
    return double{same_bits<float>(same_bits<uint32_t>(value) | special | (bits & 0x8000u) << 16)};
  }
  static HWY_INLINE Bits narrow(double x) {
    const uint32_t bits = to_odd_float(x);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t rounded = magnitude + 0x0FFFu + (magnitude >> 13 & 1u);
    const uint32_t rebiased = (rounded - (112u << 23)) >> 13;
    const uint32_t normal = rebiased < 0x7C00u ? rebiased : 0x7C00u;
    const uint32_t subnormal =
        same_bits<uint32_t>(same_bits<float>(magnitude) + 0.5f) - same_bits<uint32_t>(0.5f);
    const uint32_t is_subnormal = 0u - uint32_t{magnitude < 0x38800000u};
    const uint32_t value = (is_subnormal & subnormal) | (~is_subnormal & normal);
    return x == x ? Bits(value | (bits >> 16 & 0x8000u)) : Bits(kFormat.nan);
  }
  static HWY_INLINE Bits narrow(SumAndError exact) { return narrow(to_odd(exact)); }
};

static Kernels family_kernels(tutti_dtype dtype, tutti_op op) {
  switch (dtype) {
    case TUTTI_FLOAT16:
      return float_kernels<Float16>(op);
    case TUTTI_BFLOAT16:
      return float_kernels<BFloat16>(op);
    default:
      return {};
  }
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "lib/reduce/families.h"

namespace tutti::reduce {
#include "lib/reduce/targets.inc"
std::span<const Target> half_targets() { return kTargets; }
}  // namespace tutti::reduce
#endif
