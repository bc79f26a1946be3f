// The operators that integers have. Compiled once per instruction set (hence the toggled guard).
#if defined(TUTTI_REDUCE_INTEGER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_INTEGER_INL_H
#undef TUTTI_REDUCE_INTEGER_INL_H
#else
#define TUTTI_REDUCE_INTEGER_INL_H
#endif

#include <cstring>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"
#include "lib/reduce/canonical-inl.h"
#include "lib/reduce/exact-inl.h"
#include "lib/reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

template <class T>
void divide_integers(void* data, size_t elements, uint32_t divisor) {
  // Wide enough for every value of both; C++ division truncates toward zero.
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  uint8_t* bytes = static_cast<uint8_t*>(data);
  for (size_t i = 0; i < elements; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    value = static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

// Only comparison and division depend on the sign; everything else uses the unsigned type's
// kernels.
template <class T>
Kernels integer_kernels(tutti_op op) {
  using Bits = Plain<std::make_unsigned_t<T>>;
  switch (op) {
    case TUTTI_SUM:
      return kernels_of<Bits, Sum>(nullptr, scale_lanes<Bits>);
    case TUTTI_AVG:
      return kernels_of<Bits, Sum>(divide_integers<T>);
    case TUTTI_PROD:
      return kernels_of<Bits, Prod>();
    case TUTTI_MIN:
      return kernels_of<Plain<T>, Min>();
    case TUTTI_MAX:
      return kernels_of<Plain<T>, Max>();
    case TUTTI_LAND:
      return kernels_of<Bits, LogicalAnd>();
    case TUTTI_LOR:
      return kernels_of<Bits, LogicalOr>();
    case TUTTI_LXOR:
      return kernels_of<Bits, LogicalXor>();
    case TUTTI_BAND:
      return kernels_of<Bits, BitAnd>();
    case TUTTI_BOR:
      return kernels_of<Bits, BitOr>();
    case TUTTI_BXOR:
      return kernels_of<Bits, BitXor>();
    default:
      return {};
  }
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_REDUCE_INTEGER_INL_H
