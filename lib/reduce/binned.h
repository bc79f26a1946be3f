// Binned sums: accumulators whose bits depend only on the values that were added, not on their
// order nor on how they were distributed over accumulators that were merged later. J. Demmel and
// Hong Diep Nguyen, "Parallel Reproducible Summation", IEEE Transactions on Computers 64(7), 2015
// (and ARITH 21, 2013); P. Ahrens, J. Demmel, Hong Diep Nguyen, "Algorithms for Efficient
// Reproducible Floating Point Summation", ACM TOMS 46(3), 2020.
//
// The exponent range of the type is divided into bins of 24 bits at fixed places. A value is split
// there into digits, each the nearest to what the digits above it leave, and an accumulator keeps
// the sums of the digits of the K uppermost bins that any value has reached. A digit depends only
// on its value and its bin. So when a larger value opens a higher bin and the lowest one is
// dropped, the bins that stay are what they would be had the larger value come first.
//
// The papers keep a bin in two floating-point words, whose width (40 and 13 bits) leaves no room
// for carries. Here a bin is one 64-bit integer, which holds the sum of 2^39 digits of 24 bits (R.
// Neal, "Fast exact summation using small and large superaccumulators", 2015, does the same for
// exact sums): nothing is renormalised, merging is addition, the bits are equal by the laws of
// integers, and the whole range is one case, subnormals and the largest numbers included.
//
// Error: with n values of magnitude at most M, the result is the correctly rounded sum of values
// that each differ from the true ones by at most M * 2^(-24 (K - 1) - 1): 2^-145 M for float64
// (K = 7), 2^-49 M for float32 (K = 3). So it is the exact sum, rounded once, wherever all values
// lie within 24 (K - 1) bits. Compare n 2^-53 and n 2^-24 times the sum of magnitudes for a fold.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/reduce/reduce.h"
#include "lib/reduce/rounding.h"

namespace tutti::reduce {

// Zeroed memory is an empty sum. Any bits can be merged safely; binned_valid() rejects bits that no
// sequence of additions gives.
template <int kBinCount, int kLeast, int kGreatest>
struct Binned {
  static constexpr int kBins = kBinCount;
  static constexpr int kLeastExponent = kLeast;  // of the least value, where bin 0 begins
  static constexpr int kWidth = 24;              // bits of a bin
  static constexpr int kMostIndex = (kGreatest - kLeast) / kWidth + 1;
  static constexpr uint64_t kMostValues = (uint64_t{1} << 39) - 1;

  // From the lowest bit: 48 bits, how many values were added (up to kMostValues + 1, which means
  // too many); 8 bits, which special values were among them; 8 bits, the uppermost bin plus one, 0
  // for none.
  uint64_t head;
  // Two's complement sums of digits, uppermost bin first.
  uint64_t bins[kBinCount];
};
using BinnedFloat32 = Binned<3, -149, 127>;
using BinnedFloat64 = Binned<7, -1074, 1023>;
static_assert(sizeof(BinnedFloat32) == 32 && sizeof(BinnedFloat64) == 64);

// Adds the value with this bit pattern. The sum must cover the range of the format: float64 is too
// wide for BinnedFloat32.
void binned_add(BinnedFloat32* sum, const FloatFormat& format, uint64_t pattern);
void binned_add(BinnedFloat64* sum, const FloatFormat& format, uint64_t pattern);

// *sum += other; bitwise associative and commutative.
void binned_merge(BinnedFloat32* sum, const BinnedFloat32& other);
void binned_merge(BinnedFloat64* sum, const BinnedFloat64& other);

// The sum's bit pattern in the format, rounded once. NaN if a NaN was added, or infinities of both
// signs, or more values than kMostValues; a sum of zero is +0 unless nothing but -0 was added.
uint64_t binned_round(const BinnedFloat32& sum, const FloatFormat& format);
uint64_t binned_round(const BinnedFloat64& sum, const FloatFormat& format);

// The kernels of TUTTI_SUM, as reduce.h describes them; null for any other type. The same for all
// levels, on all instruction sets.
Kernels binned_kernels(tutti_dtype dtype);

// Whether the bits can be those of a sum.
bool binned_valid(const BinnedFloat32& sum);
bool binned_valid(const BinnedFloat64& sum);

}  // namespace tutti::reduce
