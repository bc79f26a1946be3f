// Integers of 8 and 16 bits, and bool, which is a byte.
#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/reduce/narrow.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "lib/reduce/integer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

// Arithmetic on bools: true is 1, and sums saturate at 1.
static Kernels bool_kernels(tutti_op op) {
  using Byte = Plain<uint8_t>;
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_MAX:
    case TUTTI_LOR:
    case TUTTI_BOR:
      return kernels_of<Byte, LogicalOr>();
    case TUTTI_PROD:
    case TUTTI_MIN:
    case TUTTI_LAND:
    case TUTTI_BAND:
      return kernels_of<Byte, LogicalAnd>();
    case TUTTI_LXOR:
    case TUTTI_BXOR:
      return kernels_of<Byte, LogicalXor>();
    default:
      return {};
  }
}

static Kernels family_kernels(tutti_dtype dtype, tutti_op op) {
  switch (dtype) {
    case TUTTI_INT8:
      return integer_kernels<int8_t>(op);
    case TUTTI_UINT8:
      return integer_kernels<uint8_t>(op);
    case TUTTI_INT16:
      return integer_kernels<int16_t>(op);
    case TUTTI_UINT16:
      return integer_kernels<uint16_t>(op);
    case TUTTI_BOOL:
      return bool_kernels(op);
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
std::span<const Target> narrow_targets() { return kTargets; }
}  // namespace tutti::reduce
#endif
