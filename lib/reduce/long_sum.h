// An exact sum of floating-point numbers: a fixed-point number that covers the range of float64
// (U. Kulisch's long accumulator; Collange, Defour, Graillat, Iakymchuk 2015). For sums that the
// fast paths cannot add without an error, and for rounding binned sums.
#pragma once

#include <array>
#include <cstdint>

#include "lib/reduce/rounding.h"

namespace tutti::reduce {

class LongSum {
 public:
  // Not inline, like all members: an inline copy compiled in a kernel file would use that file's
  // instruction set.
  LongSum();
  // Fewer than 2^31 additions in all.
  void add(double value);
  // value * 2^exponent, in the range of float64 with 64 bits to spare above.
  void add(int64_t value, int exponent);

  // The sum, rounded once to nearest even. NaN if one was added, or infinities of both signs; a sum
  // of zero is +0 unless nothing but -0 was added.
  uint64_t round(const FloatFormat& format);

 private:
  static constexpr int kLeastExponent = -1074;
  static constexpr int kDigitBits = 32;

  std::array<int64_t, 72> digits_;  // 32 bits each, with carries not yet propagated above them
  bool nan_;
  bool plus_infinity_;
  bool minus_infinity_;
  bool only_minus_zeros_;
};

}  // namespace tutti::reduce
