#include "lib/reduce/long_sum.h"

#include <bit>
#include <cstddef>

namespace tutti::reduce {

namespace {

// Propagates carries: digits are in [0, 2^bits) afterwards, except the last, which keeps the sign.
template <class Digits>
void carry(Digits& digits, int bits) {
  for (size_t i = 0; i + 1 < digits.size(); ++i) {
    digits[i + 1] += digits[i] >> bits;
    digits[i] &= (int64_t{1} << bits) - 1;
  }
}

}  // namespace

LongSum::LongSum()
    : digits_{},
      nan_(false),
      plus_infinity_(false),
      minus_infinity_(false),
      only_minus_zeros_(true) {}

void LongSum::add(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63 != 0;
  const int field = int(bits >> 52 & 0x7FF);
  uint64_t mantissa = bits & 0xFFFFFFFFFFFFF;
  if (field == 0x7FF) {
    nan_ |= mantissa != 0;
    plus_infinity_ |= mantissa == 0 && !negative;
    minus_infinity_ |= mantissa == 0 && negative;
    return;
  }
  if (field != 0) mantissa |= uint64_t{1} << 52;
  if (mantissa != 0 || !negative) only_minus_zeros_ = false;
  add(negative ? -int64_t(mantissa) : int64_t(mantissa), (field == 0 ? 1 : field) - 1075);
}

void LongSum::add(int64_t value, int exponent) {
  if (value == 0) return;
  only_minus_zeros_ = false;
  const uint64_t magnitude = value < 0 ? -uint64_t(value) : uint64_t(value);
  const int position = exponent - kLeastExponent;
  const size_t digit = size_t(position / kDigitBits);
  const int shift = position % kDigitBits;
  constexpr uint64_t mask = 0xFFFFFFFF;
  const uint64_t lower = (magnitude & mask) << shift, upper = (magnitude >> 32) << shift;
  const int64_t sign = value < 0 ? -1 : 1;
  digits_[digit] += sign * int64_t(lower & mask);
  digits_[digit + 1] += sign * int64_t((lower >> 32) + (upper & mask));
  digits_[digit + 2] += sign * int64_t(upper >> 32);
}

uint64_t LongSum::round(const FloatFormat& format) {
  if (nan_ || (plus_infinity_ && minus_infinity_)) return format.nan;
  if (plus_infinity_ || minus_infinity_) {
    if (format.infinity == format.nan) return format.nan;
    return uint64_t{minus_infinity_} << (format.bits - 1) | format.infinity;
  }
  carry(digits_, kDigitBits);
  const bool negative = digits_.back() < 0;
  if (negative) {
    for (int64_t& digit : digits_) digit = -digit;
    carry(digits_, kDigitBits);
  }
  size_t top = digits_.size();
  while (top > 0 && digits_[top - 1] == 0) --top;
  if (top == 0) return round_to(format, only_minus_zeros_, 0, 0);
  // The uppermost 64 bits, or all; whether anything below is not 0 becomes a sticky bit.
  const size_t lowest = top > 3 ? top - 3 : 0;
  int exponent = kLeastExponent + int(lowest) * kDigitBits;
  uint64_t rest = 0;
  for (size_t i = 0; i < lowest; ++i) rest |= uint64_t(digits_[i]);
  const auto digit = [&](size_t i) { return i < top ? uint64_t(digits_[i]) : 0; };
  const uint64_t low = digit(lowest) | digit(lowest + 1) << 32, high = digit(lowest + 2);
  const int cut = 64 - std::countl_zero(high);  // at most 32
  uint64_t magnitude = cut == 0 ? low : low >> cut | high << (64 - cut);
  exponent += cut;
  if (cut != 0) rest |= low << (64 - cut);
  // `rest` is 0 for fewer than three digits; three leave the uppermost bit of `magnitude` set.
  if (rest != 0) magnitude |= 1;
  return round_to(format, negative, magnitude, exponent);
}

}  // namespace tutti::reduce
