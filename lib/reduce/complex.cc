// complex64 and complex128: a real and an imaginary lane.
#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/complex.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "lib/reduce/canonical-inl.h"
#include "lib/reduce/exact-inl.h"
#include "lib/reduce/pair_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

// A sum of complex numbers is a sum of twice as many real ones.
template <class Lane>
struct ComplexSum {
  using Real = Plain<Lane>;
  static void reduce(void* out, const void* const* operands, size_t n, size_t elements) {
    reduce_many<Real, Sum>(out, operands, n, 2 * elements);
  }
  static void reduce2(void* out, const void* a, const void* b, size_t elements) {
    HWY_NAMESPACE::reduce2<Real, Sum>(out, a, b, 2 * elements);
  }
  static void reduce2_twice(void* out, void* other, const void* a, const void* b, size_t elements,
                            Stores stores) {
    HWY_NAMESPACE::reduce2_twice<Real, Sum>(out, other, a, b, 2 * elements, stores);
  }
  static void reduce_canonical(void* out, const void* const* operands, size_t n, size_t elements) {
    HWY_NAMESPACE::reduce_canonical<Real, Sum>(out, operands, n, 2 * elements);
  }
  static void reduce_exact(void* out, const void* const* operands, size_t n, size_t elements) {
    HWY_NAMESPACE::reduce_exact<Real>(out, operands, n, 2 * elements);
  }
  static void divide(void* data, size_t elements, uint32_t divisor) {
    divide_floats<Real>(data, 2 * elements, divisor);
  }
};

struct ComplexProd {
  template <class D>
  HWY_INLINE PairOf<D> first(D, const PairOf<D>& x) const {
    return x;
  }
  template <class D>
  HWY_INLINE PairOf<D> next(D, const PairOf<D>& product, const PairOf<D>& x) const {
    return {hn::Sub(hn::Mul(product.first, x.first), hn::Mul(product.second, x.second)),
            hn::Add(hn::Mul(product.first, x.second), hn::Mul(product.second, x.first))};
  }
  template <class D>
  HWY_INLINE PairOf<D> last(D d, const PairOf<D>& product) const {
    return {canonical_nan(d, product.first), canonical_nan(d, product.second)};
  }
};

template <class Lane>
struct ComplexScaled {
  Lane real, imaginary;

  template <class D>
  HWY_INLINE PairOf<D> first(D, const PairOf<D>& x) const {
    return x;
  }
  template <class D>
  HWY_INLINE PairOf<D> next(D, const PairOf<D>& x, const PairOf<D>&) const {
    return x;
  }
  template <class D>
  HWY_INLINE PairOf<D> last(D d, const PairOf<D>& x) const {
    const PairOf<D> scalar{hn::Set(d, real), hn::Set(d, imaginary)};
    return ComplexProd().last(d, ComplexProd().next(d, x, scalar));
  }
};

template <class Lane>
void scale_complex(void* out, const void* in, const void* scalar, size_t elements) {
  Lane parts[2];
  std::memcpy(parts, scalar, sizeof(parts));
  fold_pairs<Lane>(out, OneOperand{static_cast<const uint8_t*>(in)}, elements,
                   ComplexScaled<Lane>{parts[0], parts[1]});
}

template <class Lane>
Kernels complex_kernels(tutti_op op) {
  using Sums = ComplexSum<Lane>;
  switch (op) {
    case TUTTI_SUM:
      return {Sums::reduce,        Sums::reduce2,          Sums::reduce2_twice, nullptr,
              scale_complex<Lane>, Sums::reduce_canonical, Sums::reduce_exact};
    case TUTTI_AVG:
      return {Sums::reduce, Sums::reduce2,          Sums::reduce2_twice, Sums::divide,
              nullptr,      Sums::reduce_canonical, Sums::reduce_exact};
    case TUTTI_PROD:
      return pair_kernels_of<Lane, ComplexProd, false>();
    default:
      return {};
  }
}

static Kernels family_kernels(tutti_dtype dtype, tutti_op op) {
  switch (dtype) {
    case TUTTI_COMPLEX64:
      return complex_kernels<float>(op);
    case TUTTI_COMPLEX128:
      return complex_kernels<double>(op);
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
std::span<const Target> complex_targets() { return kTargets; }
}  // namespace tutti::reduce
#endif
