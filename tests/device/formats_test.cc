// How floats of 8 and 16 bits become float32 and what float32 is rounded to: all patterns of the
// narrow ones, and those of float32 around every place where the result changes.
#include "lib/device/kernels/formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "lib/reduce/rounding.h"

namespace tutti::device {
namespace {

using reduce::FloatFormat;

// What the pattern stands for, by the definition of the format.
double value_of(const FloatFormat& format, uint32_t pattern) {
  const uint32_t sign = 1u << (format.bits - 1);
  const uint32_t magnitude = pattern & (sign - 1);
  const int exponent = int(magnitude >> format.mantissa_bits);
  const uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const bool normal = exponent != 0;
  double value =
      std::ldexp(mantissa + (normal ? 1u << format.mantissa_bits : 0u),
                 format.least_exponent + (normal ? exponent - 1 : 0) - format.mantissa_bits);
  if (magnitude > format.greatest) value = magnitude == format.infinity ? INFINITY : NAN;
  if (format.infinity == format.nan && magnitude == format.nan) value = NAN;
  return (pattern & sign) != 0 ? -value : value;
}

uint32_t rounded(const FloatFormat& format, float x) {
  if (std::isnan(x)) return uint32_t(format.nan);
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t exponent = bits >> 23 & 0xFF;
  const uint32_t mantissa = bits & 0x7FFFFF;
  const bool negative = std::signbit(x);
  if (std::isinf(x)) {
    if (format.infinity == format.nan) return uint32_t(format.nan);
    return uint32_t(format.infinity) | uint32_t{negative} << (format.bits - 1);
  }
  return uint32_t(reduce::round_to(format, negative, mantissa | (exponent != 0 ? 0x800000 : 0),
                                   int(exponent != 0 ? exponent : 1) - 150));
}

template <class Format>
void check_all(const FloatFormat& format) {
  for (uint32_t pattern = 0; pattern < 1u << format.bits; ++pattern) {
    const float wide = Format::widen(static_cast<typename Format::Element>(pattern));
    const double value = value_of(format, pattern);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(wide)) << std::hex << pattern;
    } else {
      ASSERT_EQ(double{wide}, value) << std::hex << pattern;
      ASSERT_EQ(std::signbit(wide), std::signbit(value)) << std::hex << pattern;
      ASSERT_EQ(Format::narrow(wide), pattern) << std::hex;
    }
  }
  // Every upper half, with lower halves around every halfway point there may be.
  const uint32_t place = 1u << (23 - format.mantissa_bits);
  for (uint32_t upper = 0; upper < 1u << 16; ++upper) {
    for (const uint32_t middle : {0u, place / 4, place / 2, place, place + place / 2, 0x8000u}) {
      for (const uint32_t step : {0xFFFFFFFEu, 0xFFFFFFFFu, 0u, 1u, 2u}) {
        const uint32_t bits = (upper << 16) + middle + step;
        const float x = std::bit_cast<float>(bits);
        ASSERT_EQ(Format::narrow(x), rounded(format, x)) << std::hex << bits;
      }
    }
  }
}

TEST(NarrowFormats, BFloat16) { check_all<BFloat16>(reduce::kBFloat16); }
TEST(NarrowFormats, Float16) { check_all<Float16>(reduce::kFloat16); }
TEST(NarrowFormats, E4M3) { check_all<E4M3>(reduce::kFloat8E4M3); }
TEST(NarrowFormats, E5M2) { check_all<E5M2>(reduce::kFloat8E5M2); }

}  // namespace
}  // namespace tutti::device
