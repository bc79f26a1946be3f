// Values with an index: the least or the greatest value, with its index.
#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/located.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "lib/reduce/pair_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

// Values as signed integers of the same size (Lane) whose comparison gives the order of the
// operator.
struct IntegerKeys {
  template <class D, class V>
  static HWY_INLINE V key(D, V value) {
    return value;
  }
  template <class D, class V>
  static HWY_INLINE V value(D, V key) {
    return key;
  }
};

// The bits of a float, with the magnitude bits of negative ones inverted: keys order as the numbers
// do, -0 just below +0. No number has the extreme keys, so the one that wins over all numbers
// stands for every NaN.
template <bool kLeastWins>
struct FloatKeys {
  template <class D>
  static constexpr hn::TFromD<D> nan_key() {
    using Lane = hn::TFromD<D>;
    return kLeastWins ? hwy::LimitsMin<Lane>() : hwy::LimitsMax<Lane>();
  }
  template <class D>
  static constexpr hn::TFromD<D> infinity() {
    using Lane = hn::TFromD<D>;
    return static_cast<Lane>(sizeof(Lane) == 4 ? 0x7F800000 : 0x7FF0000000000000);
  }
  template <class D, class V>
  static HWY_INLINE V turned(D d, V bits) {
    const V magnitude = hn::Set(d, hwy::LimitsMax<hn::TFromD<D>>());
    return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), magnitude));
  }
  template <class D, class V>
  static HWY_INLINE V key(D d, V bits) {
    const V magnitude = hn::And(bits, hn::Set(d, hwy::LimitsMax<hn::TFromD<D>>()));
    const auto is_nan = hn::Gt(magnitude, hn::Set(d, infinity<D>()));
    return hn::IfThenElse(is_nan, hn::Set(d, nan_key<D>()), turned(d, bits));
  }
  template <class D, class V>
  static HWY_INLINE V value(D d, V key) {
    using Lane = hn::TFromD<D>;
    const auto quiet = static_cast<Lane>(sizeof(Lane) == 4 ? 0x7FC00000 : 0x7FF8000000000000);
    const auto is_nan = hn::Eq(key, hn::Set(d, nan_key<D>()));
    return hn::IfThenElse(is_nan, hn::Set(d, quiet), turned(d, key));
  }
};

// The state is the key and the index of the best so far.
template <class Keys, bool kLeastWins>
struct Locate {
  template <class D>
  HWY_INLINE PairOf<D> first(D d, const PairOf<D>& x) const {
    return {Keys::key(d, x.first), x.second};
  }
  template <class D>
  HWY_INLINE PairOf<D> next(D d, const PairOf<D>& best, const PairOf<D>& x) const {
    const auto key = Keys::key(d, x.first);
    const auto better = kLeastWins ? hn::Lt(key, best.first) : hn::Lt(best.first, key);
    const auto nearer = hn::And(hn::Eq(key, best.first), hn::Lt(x.second, best.second));
    const auto takes = hn::Or(better, nearer);
    return {hn::IfThenElse(takes, key, best.first), hn::IfThenElse(takes, x.second, best.second)};
  }
  template <class D>
  HWY_INLINE PairOf<D> last(D d, const PairOf<D>& best) const {
    return {Keys::value(d, best.first), best.second};
  }
};

template <class Lane>
Kernels integers(tutti_op op) {
  return op == TUTTI_MINLOC ? pair_kernels_of<Lane, Locate<IntegerKeys, true>, true>()
                            : pair_kernels_of<Lane, Locate<IntegerKeys, false>, true>();
}

template <class Lane>
Kernels floats(tutti_op op) {
  return op == TUTTI_MINLOC ? pair_kernels_of<Lane, Locate<FloatKeys<true>, true>, true>()
                            : pair_kernels_of<Lane, Locate<FloatKeys<false>, false>, true>();
}

static Kernels family_kernels(tutti_dtype dtype, tutti_op op) {
  if (op != TUTTI_MINLOC && op != TUTTI_MAXLOC) return {};
  switch (dtype) {
    case TUTTI_FLOAT32_INT32:
      return floats<int32_t>(op);
    case TUTTI_FLOAT64_INT64:
      return floats<int64_t>(op);
    case TUTTI_INT32_INT32:
      return integers<int32_t>(op);
    case TUTTI_INT64_INT64:
      return integers<int64_t>(op);
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
std::span<const Target> located_targets() { return kTargets; }
}  // namespace tutti::reduce
#endif
