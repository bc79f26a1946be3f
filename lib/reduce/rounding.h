// Rounding of numbers that are wider than any type: a magnitude of 64 bits at some power of two.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::reduce {

// A binary floating-point format by its bit patterns, which grow with the magnitude.
struct FloatFormat {
  int bits;            // of the whole pattern; the uppermost is the sign
  int mantissa_bits;   // without the implicit one
  int least_exponent;  // of a normal number: the least one is 2^least_exponent
  uint64_t greatest;   // the largest finite magnitude
  uint64_t infinity;   // the result of an overflow: NaN where the format has no infinity
  uint64_t nan;        // the canonical one
};

inline constexpr FloatFormat kFloat16{16, 10, -14, 0x7BFF, 0x7C00, 0x7E00};
inline constexpr FloatFormat kBFloat16{16, 7, -126, 0x7F7F, 0x7F80, 0x7FC0};
inline constexpr FloatFormat kFloat32{32, 23, -126, 0x7F7FFFFF, 0x7F800000, 0x7FC00000};
inline constexpr FloatFormat kFloat64{
    64, 52, -1022, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000};
// The two 8-bit formats of the Open Compute Project; the first has no infinity.
inline constexpr FloatFormat kFloat8E4M3{8, 3, -6, 0x7E, 0x7F, 0x7F};
inline constexpr FloatFormat kFloat8E5M2{8, 2, -14, 0x7B, 0x7C, 0x7E};

// The pattern of +-magnitude * 2^exponent, rounded to nearest even; a magnitude of zero gives +0 or
// -0. Where `magnitude` has its uppermost bit set, its lowest may be a sticky bit for all below it.
constexpr uint64_t round_to(const FloatFormat& format, bool negative, uint64_t magnitude,
                            int exponent) {
  const uint64_t sign = uint64_t{negative} << (format.bits - 1);
  if (magnitude == 0) return sign;
  const int top = exponent + 63 - std::countl_zero(magnitude);
  const int scale = top > format.least_exponent ? top : format.least_exponent;
  // Units of the last place that is kept; the lowest `cut` bits of the magnitude are rounded away.
  const int cut = scale - format.mantissa_bits - exponent;
  uint64_t units = 0;
  if (cut <= 0) {
    units = magnitude << -cut;
  } else if (cut <= 64) {
    const uint64_t half = uint64_t{1} << (cut - 1);
    const uint64_t rest = magnitude & (half - 1 + half);
    units = cut == 64 ? 0 : magnitude >> cut;
    units += uint64_t{rest > half || (rest == half && (units & 1) != 0)};
  }
  // Rounding up to the next power of two carries into the exponent, which is right.
  const uint64_t steps = uint64_t(scale - format.least_exponent);
  if (steps > format.greatest >> format.mantissa_bits) {
    return format.infinity == format.nan ? format.nan : sign | format.infinity;
  }
  const uint64_t pattern = (steps << format.mantissa_bits) + units;
  if (pattern <= format.greatest) return sign | pattern;
  return format.infinity == format.nan ? format.nan : sign | format.infinity;
}

}  // namespace tutti::reduce
