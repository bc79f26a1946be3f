// Integers of 32 and 64 bits.
#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/wide.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "lib/reduce/integer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

static Kernels family_kernels(tutti_dtype dtype, tutti_op op) {
  switch (dtype) {
    case TUTTI_INT32:
      return integer_kernels<int32_t>(op);
    case TUTTI_UINT32:
      return integer_kernels<uint32_t>(op);
    case TUTTI_INT64:
      return integer_kernels<int64_t>(op);
    case TUTTI_UINT64:
      return integer_kernels<uint64_t>(op);
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
std::span<const Target> wide_targets() { return kTargets; }
}  // namespace tutti::reduce
#endif
