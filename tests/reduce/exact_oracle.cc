#include "tests/reduce/exact_oracle.h"

namespace tutti::reference {

void Whole::add(uint64_t value, int shift) {
  for (int bit = 0; bit < 64; ++bit) {
    if ((value >> bit & 1) == 0) continue;
    auto digit = size_t(bit + shift) / 32;
    const uint32_t one = 1u << ((bit + shift) % 32);
    uint32_t sum = digits_[digit] + one;
    bool carry = sum < one;
    digits_[digit] = sum;
    while (carry) carry = ++digits_[++digit] == 0;
  }
}

void Whole::add(const Whole& other) {
  uint64_t carry = 0;
  for (size_t i = 0; i < digits_.size(); ++i) {
    carry += uint64_t{digits_[i]} + other.digits_[i];
    digits_[i] = uint32_t(carry);
    carry >>= 32;
  }
}

void Whole::subtract(const Whole& smaller) {
  int64_t borrow = 0;
  for (size_t i = 0; i < digits_.size(); ++i) {
    borrow += int64_t{digits_[i]} - int64_t{smaller.digits_[i]};
    digits_[i] = uint32_t(borrow);
    borrow >>= 32;
  }
}

int Whole::compare(const Whole& other) const {
  for (size_t i = digits_.size(); i-- > 0;) {
    if (digits_[i] != other.digits_[i]) return digits_[i] < other.digits_[i] ? -1 : 1;
  }
  return 0;
}

bool Whole::zero() const { return compare(Whole()) == 0; }

uint64_t Float::infinity() const {
  if (finite_top) return (uint64_t{1} << (bits() - 1)) - 1;
  return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
}

uint64_t Float::nan() const {
  return finite_top ? infinity() : infinity() | uint64_t{1} << (mantissa_bits - 1);
}

namespace {

// Of a magnitude's pattern; of the first one that is not finite the value that it would have.
Whole value(const Float& type, uint64_t pattern) {
  const auto field = int(pattern >> type.mantissa_bits);
  uint64_t mantissa = pattern & ((uint64_t{1} << type.mantissa_bits) - 1);
  if (field != 0) mantissa |= uint64_t{1} << type.mantissa_bits;
  const int least_exponent = 2 - (1 << (type.exponent_bits - 1));
  Whole result;
  result.add(mantissa, 1074 + least_exponent - type.mantissa_bits + (field == 0 ? 0 : field - 1));
  return result;
}

uint64_t round(const Float& type, const Whole& magnitude) {
  // The largest pattern whose value is not above it.
  uint64_t low = 0, high = type.infinity();
  if (value(type, high).compare(magnitude) <= 0) return high;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (value(type, middle).compare(magnitude) <= 0 ? low : high) = middle;
  }
  Whole twice = magnitude;
  twice.add(magnitude);
  Whole between = value(type, low);
  between.add(value(type, high));
  const int side = twice.compare(between);
  return side < 0 || (side == 0 && low % 2 == 0) ? low : high;
}

}  // namespace

uint64_t exact_sum(const Float& type, const std::vector<uint64_t>& patterns) {
  return exact_sum(type, patterns, type);
}

uint64_t exact_sum(const Float& type, const std::vector<uint64_t>& patterns, const Float& result) {
  const uint64_t sign = uint64_t{1} << (type.bits() - 1);
  const uint64_t result_sign = uint64_t{1} << (result.bits() - 1);
  Whole positive, negative;
  bool plus_infinity = false, minus_infinity = false, only_minus_zeros = true;
  for (const uint64_t pattern : patterns) {
    const uint64_t magnitude = pattern & (sign - 1);
    const bool is_negative = (pattern & sign) != 0;
    only_minus_zeros = only_minus_zeros && pattern == sign;
    if (magnitude >= type.infinity()) {
      if (magnitude > type.infinity() || type.finite_top) return result.nan();
      (is_negative ? minus_infinity : plus_infinity) = true;
      continue;
    }
    (is_negative ? negative : positive).add(value(type, magnitude));
  }
  if (plus_infinity && minus_infinity) return result.nan();
  if (plus_infinity) return result.infinity();
  if (minus_infinity) return result.infinity() | result_sign;
  const int order = positive.compare(negative);
  if (order == 0) return only_minus_zeros ? result_sign : 0;
  Whole& larger = order > 0 ? positive : negative;
  larger.subtract(order > 0 ? negative : positive);
  const uint64_t magnitude = round(result, larger);
  if (magnitude == result.infinity() && result.finite_top) return result.nan();
  return order > 0 ? magnitude : magnitude | result_sign;
}

}  // namespace tutti::reference
