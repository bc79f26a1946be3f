// float32 and float64.
#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/float.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "lib/reduce/canonical-inl.h"
#include "lib/reduce/exact-inl.h"
#include "lib/reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

static Kernels family_kernels(tutti_dtype dtype, tutti_op op) {
  switch (dtype) {
    case TUTTI_FLOAT32:
      return float_kernels<Plain<float>>(op);
    case TUTTI_FLOAT64:
      return float_kernels<Plain<double>>(op);
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
std::span<const Target> float_targets() { return kTargets; }
}  // namespace tutti::reduce
#endif
