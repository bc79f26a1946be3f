// The operators on vectors of any width: how a fold begins, goes on and ends. Compiled once per
// instruction set (hence the toggled guard).
#if defined(TUTTI_REDUCE_OPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_OPS_INL_H
#undef TUTTI_REDUCE_OPS_INL_H
#else
#define TUTTI_REDUCE_OPS_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// An operator has three functions over vectors of type V with tag D: first(d, x) makes the state
// from the first operand, next(d, state, x) takes one more, last(d, state) gives the result.

// Instruction sets differ in NaN payloads (which operand's NaN survives, the sign of a new one),
// and compilers may swap the operands of an addition. A fold that has a NaN stays NaN, so replacing
// it once, at the end, makes the bits independent of all that.
template <class D, class V>
HWY_INLINE V canonical_nan(D d, V v) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    const hn::RebindToUnsigned<D> du;
    const auto quiet = sizeof(hn::TFromD<D>) == 4 ? 0x7FC00000u : 0x7FF8000000000000u;
    const V nan = hn::BitCast(d, hn::Set(du, static_cast<hn::TFromD<decltype(du)>>(quiet)));
    return hn::IfThenElse(hn::Eq(v, v), v, nan);
  } else {
    return v;
  }
}

struct Sum {
  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D, V sum, V x) const {
    return hn::Add(sum, x);
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V sum) const {
    return canonical_nan(d, sum);
  }
};

// There is no multiplication of bytes: multiplies the low and the high bytes of 16-bit lanes
// separately, with masks.
template <class D, class V>
HWY_INLINE V multiply(D d, V a, V b) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) != 1) {
    return hn::Mul(a, b);
  } else if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::Set(d, static_cast<T>(hn::GetLane(a) * hn::GetLane(b)));
  } else {
    const hn::Repartition<uint16_t, D> d16;
    const auto a16 = hn::BitCast(d16, a);
    const auto b16 = hn::BitCast(d16, b);
    const auto low = hn::Set(d16, uint16_t{0x00FF});
    const auto even = hn::And(hn::Mul(a16, b16), low);
    const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::AndNot(low, b16));
    return hn::BitCast(d, hn::Or(even, odd));
  }
}

struct Prod {
  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D d, V product, V x) const {
    return multiply(d, product, x);
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V product) const {
    return canonical_nan(d, product);
  }
};

// a where a < b, else b: as minps does, also for NaN and for zeros of both signs.
template <class V>
HWY_INLINE V lesser_or_second(V a, V b) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Min(a, b);
#else
  return hn::IfThenElse(hn::Lt(a, b), a, b);
#endif
}

// The minimum with -0 < +0, and some NaN where either is one. The results of the two orders differ
// only for zeros of both signs, where OR gives -0, and for a NaN, which OR keeps.
template <class V>
HWY_INLINE V float_min(V a, V b) {
  return hn::Or(lesser_or_second(a, b), lesser_or_second(b, a));
}

struct Min {
  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D, V least, V x) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return float_min(least, x);
    } else {
      return hn::Min(least, x);
    }
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V least) const {
    return canonical_nan(d, least);
  }
};

// On floats the state is the minimum of the negated operands, because the OR of float_min works for
// the minimum only.
struct Max {
  template <class D, class V>
  HWY_INLINE V negate(D d, V x) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Xor(x, hn::SignBit(d));
    } else {
      return x;
    }
  }
  template <class D, class V>
  HWY_INLINE V first(D d, V x) const {
    return negate(d, x);
  }
  template <class D, class V>
  HWY_INLINE V next(D d, V greatest, V x) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return float_min(greatest, negate(d, x));
    } else {
      return hn::Max(greatest, x);
    }
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V greatest) const {
    return canonical_nan(d, negate(d, greatest));
  }
};

// All bits set in the lanes that are zero.
template <class D, class V>
HWY_INLINE V zero_lanes(D d, V x) {
  return hn::VecFromMask(d, hn::Eq(x, hn::Zero(d)));
}

template <class D, class V>
HWY_INLINE V one_unless(D d, V lanes) {
  return hn::AndNot(lanes, hn::Set(d, hn::TFromD<D>{1}));
}

// State: the lanes in which some operand was zero.
struct LogicalAnd {
  template <class D, class V>
  HWY_INLINE V first(D d, V x) const {
    return zero_lanes(d, x);
  }
  template <class D, class V>
  HWY_INLINE V next(D d, V zero, V x) const {
    return hn::Or(zero, zero_lanes(d, x));
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V zero) const {
    return one_unless(d, zero);
  }
};

// State: the bits of all operands.
struct LogicalOr {
  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D, V bits, V x) const {
    return hn::Or(bits, x);
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V bits) const {
    return one_unless(d, zero_lanes(d, bits));
  }
};

// State: the lanes in which the number of operands that are not zero is even.
struct LogicalXor {
  template <class D, class V>
  HWY_INLINE V first(D d, V x) const {
    return zero_lanes(d, x);
  }
  template <class D, class V>
  HWY_INLINE V next(D d, V even, V x) const {
    return hn::Xor(even, hn::VecFromMask(d, hn::Ne(x, hn::Zero(d))));
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V even) const {
    return one_unless(d, even);
  }
};

struct BitAnd {
  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D, V bits, V x) const {
    return hn::And(bits, x);
  }
  template <class D, class V>
  HWY_INLINE V last(D, V bits) const {
    return bits;
  }
};

struct BitOr {
  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D, V bits, V x) const {
    return hn::Or(bits, x);
  }
  template <class D, class V>
  HWY_INLINE V last(D, V bits) const {
    return bits;
  }
};

struct BitXor {
  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D, V bits, V x) const {
    return hn::Xor(bits, x);
  }
  template <class D, class V>
  HWY_INLINE V last(D, V bits) const {
    return bits;
  }
};

// A fold over the data alone that ends in a multiplication: the first step of a pre-multiplied sum.
template <class Lane>
struct Scaled {
  Lane scalar;

  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D, V x, V) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V x) const {
    return canonical_nan(d, multiply(d, x, hn::Set(d, scalar)));
  }
};

// A fold over the data alone that ends in a division: the last step of an average.
struct Quotient {
  uint32_t divisor;

  template <class D, class V>
  HWY_INLINE V first(D, V x) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V next(D, V x, V) const {
    return x;
  }
  template <class D, class V>
  HWY_INLINE V last(D d, V x) const {
    return canonical_nan(d, hn::Div(x, hn::Set(d, static_cast<hn::TFromD<D>>(divisor))));
  }
};

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_REDUCE_OPS_INL_H
