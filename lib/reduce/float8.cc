// float8_e4m3 and float8_e5m2: 8 bits in memory, float32 in registers.
#include <bit>

#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/float8.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "lib/reduce/canonical-inl.h"
#include "lib/reduce/exact-inl.h"
#include "lib/reduce/exact.h"
#include "lib/reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

// A float of 8 bits in integer arithmetic, as float16 without F16C (half.cc). kSpecial: the least
// magnitude that is not finite; kNan: the canonical NaN.
template <int kMantissa, int kBias, uint32_t kSpecial, uint32_t kNan>
struct Float8 {
  using Lane = float;
  static constexpr size_t kBytes = 1;
  static constexpr int kDropped = 23 - kMantissa;
  static constexpr uint32_t kRebias = uint32_t(127 - kBias) << 23;
  // The least subnormal, and the float32 whose last place it is.
  static constexpr float kLeast = std::bit_cast<float>(uint32_t(128 - kBias - kMantissa) << 23);
  static constexpr float kStep = std::bit_cast<float>(uint32_t(151 - kBias - kMantissa) << 23);
  // The greatest number, as a float32.
  static constexpr uint32_t kGreatest = ((kSpecial - 1) << kDropped) + kRebias;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const uint8_t* from) {
    return widen(d, HWY_NAMESPACE::load(hn::Rebind<uint8_t, D>(), from));
  }

  template <class D, class V8>
  static HWY_INLINE hn::VFromD<D> widen(D d, V8 bits) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto wide = hn::PromoteTo(du, bits);
    const auto magnitude = hn::And(wide, hn::Set(du, 0x7Fu));
    const auto sign = hn::ShiftLeft<24>(hn::Xor(wide, magnitude));
    const auto normal = hn::Add(hn::ShiftLeft<kDropped>(magnitude), hn::Set(du, kRebias));
    // All ones in the exponent: an infinity keeps its empty mantissa, a NaN its full one.
    const auto special = hn::VecFromMask(du, hn::Gt(magnitude, hn::Set(du, kSpecial - 1)));
    const auto number = hn::Or(normal, hn::And(special, hn::Set(du, 0x7F800000u)));
    // With a zero exponent the value is the mantissa times the least subnormal, a normal float32.
    const auto subnormal =
        hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), hn::Set(d, kLeast));
    const auto is_subnormal =
        hn::VecFromMask(du, hn::Lt(magnitude, hn::Set(du, uint32_t{1} << kMantissa)));
    const auto value =
        hn::Or(hn::And(is_subnormal, hn::BitCast(du, subnormal)), hn::AndNot(is_subnormal, number));
    return hn::BitCast(d, hn::Or(value, sign));
  }

  // `v` has been through canonical_nan.
  template <class D>
  static HWY_INLINE hn::VFromD<hn::Rebind<uint8_t, D>> narrow(hn::VFromD<D> v, D d) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
    const auto sign = hn::ShiftRight<24>(hn::Xor(bits, magnitude));
    const auto odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(du, 1u));
    const auto half = hn::Set(du, (1u << (kDropped - 1)) - 1);
    const auto rounded = hn::Add(hn::Add(magnitude, half), odd);
    // An overflow is above the pattern of infinity, or of NaN where there is none, and is clamped
    // to it.
    const auto rebiased = hn::ShiftRight<kDropped>(hn::Sub(rounded, hn::Set(du, kRebias)));
    const auto normal = hn::Min(rebiased, hn::Set(du, kSpecial));
    // Adding rounds to the last place of kStep, which is that of a subnormal.
    const auto step = hn::Set(d, kStep);
    const auto sum = hn::Add(hn::BitCast(d, magnitude), step);
    const auto subnormal = hn::Sub(hn::BitCast(du, sum), hn::BitCast(du, step));
    const auto is_subnormal =
        hn::VecFromMask(du, hn::Lt(magnitude, hn::Set(du, uint32_t(128 - kBias) << 23)));
    const auto value = hn::Or(hn::And(is_subnormal, subnormal), hn::AndNot(is_subnormal, normal));
    // An overflow to NaN loses its sign, as every NaN does.
    const auto from_nan = hn::Gt(magnitude, hn::Set(du, 0x7F800000u));
    const auto to_nan = hn::Gt(value, hn::Set(du, kNan - 1));
    const auto is_nan = hn::VecFromMask(du, hn::Or(from_nan, to_nan));
    const auto result =
        hn::Or(hn::AndNot(is_nan, hn::Or(value, sign)), hn::And(is_nan, hn::Set(du, kNan)));
    return hn::DemoteTo(hn::Rebind<uint8_t, D>(), hn::BitCast(di, result));
  }

  // widen(narrow(v)), without leaving float32.
  template <class D, class V>
  static HWY_INLINE V round(D d, V v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
    const auto sign = hn::Xor(bits, magnitude);
    const auto odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(du, 1u));
    const auto half = hn::Set(du, (1u << (kDropped - 1)) - 1);
    const auto normal =
        hn::AndNot(hn::Set(du, (1u << kDropped) - 1), hn::Add(hn::Add(magnitude, half), odd));
    const auto step = hn::Set(d, kStep);
    const auto subnormal = hn::BitCast(du, hn::Sub(hn::Add(hn::BitCast(d, magnitude), step), step));
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(du, uint32_t(128 - kBias) << 23));
    const auto value = hn::Or(hn::IfThenElse(is_subnormal, subnormal, normal), sign);
    // An overflow becomes infinity, or NaN where the format has none.
    const auto over = hn::Gt(normal, hn::Set(du, kGreatest));
    const auto nan = hn::Set(du, 0x7FC00000u);
    if constexpr (kSpecial == kNan) return hn::BitCast(d, hn::IfThenElse(over, nan, value));
    const auto infinite = hn::Or(sign, hn::Set(du, 0x7F800000u));
    const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7F800000u));
    return hn::BitCast(d, hn::IfThenElse(is_nan, nan, hn::IfThenElse(over, infinite, value)));
  }

  template <class D>
  static HWY_INLINE void store(hn::VFromD<D> v, D d, uint8_t* to) {
    HWY_NAMESPACE::store(narrow(v, d), hn::Rebind<uint8_t, D>(), to);
  }
  template <class D>
  static HWY_INLINE void stream(hn::VFromD<D> v, D d, uint8_t* to) {
    HWY_NAMESPACE::stream(narrow(v, d), hn::Rebind<uint8_t, D>(), to);
  }
};
using E4M3 = Float8<3, 7, 0x7F, 0x7F>;
using E5M2 = Float8<2, 15, 0x7C, 0x7E>;

// `exact`: the kernel for exact sums, which adds whole numbers of units.
template <class Format>
Kernels float8_kernels(tutti_op op, ReduceFn exact) {
  Kernels kernels = float_kernels<Format>(op);
  if (op == TUTTI_SUM || op == TUTTI_AVG) kernels.reduce_exact = exact;
  return kernels;
}

static Kernels family_kernels(tutti_dtype dtype, tutti_op op) {
  switch (dtype) {
    case TUTTI_FLOAT8_E4M3:
      return float8_kernels<E4M3>(op, reduce_exact_e4m3);
    case TUTTI_FLOAT8_E5M2:
      return float8_kernels<E5M2>(op, reduce_exact_e5m2);
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
std::span<const Target> float8_targets() { return kTargets; }
}  // namespace tutti::reduce
#endif
