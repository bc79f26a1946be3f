// Exactly rounded sums: what the kernels of the `exact` level share, and those of float8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/reduce/long_sum.h"
#include "lib/reduce/rounding.h"

namespace tutti::reduce {

// float8 patterns as whole numbers of units, 2^-9 for e4m3 (at most 18 bits) and 2^-16 for e5m2 (at
// most 32 bits), so that a sum of fewer than 2^31 of them is exact in 64 bits. Of finite ones only.
int64_t e4m3_units(uint8_t pattern);
int64_t e5m2_units(uint8_t pattern);
// Rounded to nearest even; zero is +0. An overflow becomes NaN in e4m3, infinity in e5m2.
uint8_t e4m3_from_units(int64_t units);
uint8_t e5m2_from_units(int64_t units);

// A ReduceFn: out[i] = the exactly rounded sum of the n operands' elements. Special values as in
// all exact sums: NaN for a NaN or infinities of both signs, -0 for nothing but -0.
void reduce_exact_e4m3(void* out, const void* const* operands, size_t n, size_t elements);
void reduce_exact_e5m2(void* out, const void* const* operands, size_t n, size_t elements);

}  // namespace tutti::reduce
