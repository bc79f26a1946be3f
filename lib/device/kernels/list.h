// Every kernel: X(name, fold, operator). Names are made of tutti's names of types and operators,
//   tutti_combine_TYPE_OPERATOR[_canonical]
// where an average is a sum with a divisor. _canonical only where its result differs: sums and
// products of floating-point and complex numbers. Besides these there are tutti_copy and
// tutti_empty, which takes a Common and does only what common.h has.
//
// Each group is a file of its own, so that they compile in parallel.
#pragma once

#define TUTTI_INTEGER_KERNELS(X, type, Format)                 \
  X(tutti_combine_##type##_sum, LeftFold, Sum<Format>)         \
  X(tutti_combine_##type##_prod, LeftFold, Prod<Format>)       \
  X(tutti_combine_##type##_min, LeftFold, Min<Format>)         \
  X(tutti_combine_##type##_max, LeftFold, Max<Format>)         \
  X(tutti_combine_##type##_land, LeftFold, LogicalAnd<Format>) \
  X(tutti_combine_##type##_lor, LeftFold, LogicalOr<Format>)   \
  X(tutti_combine_##type##_lxor, LeftFold, LogicalXor<Format>) \
  X(tutti_combine_##type##_band, LeftFold, BitAnd<Format>)     \
  X(tutti_combine_##type##_bor, LeftFold, BitOr<Format>)       \
  X(tutti_combine_##type##_bxor, LeftFold, BitXor<Format>)

// Arithmetic on bools: true is 1, and sums saturate at 1.
#define TUTTI_BOOL_KERNELS(X)                                        \
  X(tutti_combine_bool_sum, LeftFold, LogicalOr<Integer<uint8_t>>)   \
  X(tutti_combine_bool_prod, LeftFold, LogicalAnd<Integer<uint8_t>>) \
  X(tutti_combine_bool_min, LeftFold, LogicalAnd<Integer<uint8_t>>)  \
  X(tutti_combine_bool_max, LeftFold, LogicalOr<Integer<uint8_t>>)   \
  X(tutti_combine_bool_land, LeftFold, LogicalAnd<Integer<uint8_t>>) \
  X(tutti_combine_bool_lor, LeftFold, LogicalOr<Integer<uint8_t>>)   \
  X(tutti_combine_bool_lxor, LeftFold, LogicalXor<Integer<uint8_t>>) \
  X(tutti_combine_bool_band, LeftFold, LogicalAnd<Integer<uint8_t>>) \
  X(tutti_combine_bool_bor, LeftFold, LogicalOr<Integer<uint8_t>>)   \
  X(tutti_combine_bool_bxor, LeftFold, LogicalXor<Integer<uint8_t>>)

#define TUTTI_ROUNDING_KERNELS(X, type, Format)                  \
  X(tutti_combine_##type##_sum, LeftFold, Sum<Format>)           \
  X(tutti_combine_##type##_sum_canonical, TreeFold, Sum<Format>) \
  X(tutti_combine_##type##_prod, LeftFold, Prod<Format>)         \
  X(tutti_combine_##type##_prod_canonical, TreeFold, Prod<Format>)

#define TUTTI_FLOAT_KERNELS(X, type, Format)           \
  TUTTI_ROUNDING_KERNELS(X, type, Format)              \
  X(tutti_combine_##type##_min, LeftFold, Min<Format>) \
  X(tutti_combine_##type##_max, LeftFold, Max<Format>)

#define TUTTI_LOCATED_KERNELS(X, type, Format)               \
  X(tutti_combine_##type##_minloc, LeftFold, Minloc<Format>) \
  X(tutti_combine_##type##_maxloc, LeftFold, Maxloc<Format>)

#define TUTTI_KERNELS_INTEGER8(X)                   \
  TUTTI_INTEGER_KERNELS(X, int8, Integer<int8_t>)   \
  TUTTI_INTEGER_KERNELS(X, uint8, Integer<uint8_t>) \
  TUTTI_BOOL_KERNELS(X)
#define TUTTI_KERNELS_INTEGER16(X)                  \
  TUTTI_INTEGER_KERNELS(X, int16, Integer<int16_t>) \
  TUTTI_INTEGER_KERNELS(X, uint16, Integer<uint16_t>)
#define TUTTI_KERNELS_INTEGER32(X)                  \
  TUTTI_INTEGER_KERNELS(X, int32, Integer<int32_t>) \
  TUTTI_INTEGER_KERNELS(X, uint32, Integer<uint32_t>)
#define TUTTI_KERNELS_INTEGER64(X)                  \
  TUTTI_INTEGER_KERNELS(X, int64, Integer<int64_t>) \
  TUTTI_INTEGER_KERNELS(X, uint64, Integer<uint64_t>)
#define TUTTI_KERNELS_FLOAT(X)                  \
  TUTTI_FLOAT_KERNELS(X, float32, Real<float>)  \
  TUTTI_FLOAT_KERNELS(X, float64, Real<double>) \
  TUTTI_FLOAT_KERNELS(X, float16, Float16)      \
  TUTTI_FLOAT_KERNELS(X, bfloat16, BFloat16)
#define TUTTI_KERNELS_FLOAT8(X)             \
  TUTTI_FLOAT_KERNELS(X, float8_e4m3, E4M3) \
  TUTTI_FLOAT_KERNELS(X, float8_e5m2, E5M2)
#define TUTTI_KERNELS_PAIR(X)                                    \
  TUTTI_ROUNDING_KERNELS(X, complex64, Complex<float>)           \
  TUTTI_ROUNDING_KERNELS(X, complex128, Complex<double>)         \
  TUTTI_LOCATED_KERNELS(X, float32_int32, LocatedFloat<float>)   \
  TUTTI_LOCATED_KERNELS(X, float64_int64, LocatedFloat<double>)  \
  TUTTI_LOCATED_KERNELS(X, int32_int32, LocatedInteger<int32_t>) \
  TUTTI_LOCATED_KERNELS(X, int64_int64, LocatedInteger<int64_t>)

#define TUTTI_COMBINE_KERNELS(X) \
  TUTTI_KERNELS_INTEGER8(X)      \
  TUTTI_KERNELS_INTEGER16(X)     \
  TUTTI_KERNELS_INTEGER32(X)     \
  TUTTI_KERNELS_INTEGER64(X)     \
  TUTTI_KERNELS_FLOAT(X)         \
  TUTTI_KERNELS_FLOAT8(X)        \
  TUTTI_KERNELS_PAIR(X)
