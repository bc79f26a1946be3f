// Exact fractions, so that a count is compared with its formula and not with a rounding of it.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <numeric>
#include <string>

namespace tutti::schedule {

// In lowest terms with a positive denominator. For the small numbers of counts: nothing here guards
// against overflow.
class Rational {
 public:
  constexpr Rational(int64_t numerator = 0, int64_t denominator = 1) {
    const int64_t common = std::max<int64_t>(std::gcd(numerator, denominator), 1);
    const int64_t divisor = denominator < 0 ? -common : common;
    numerator_ = numerator / divisor;
    denominator_ = denominator / divisor;
  }

  constexpr int64_t numerator() const { return numerator_; }
  constexpr int64_t denominator() const { return denominator_; }
  constexpr double value() const { return double(numerator_) / double(denominator_); }
  std::string text() const {  // "7/4", "3"
    return std::to_string(numerator_) +
           (denominator_ == 1 ? "" : "/" + std::to_string(denominator_));
  }

  friend constexpr Rational operator+(Rational a, Rational b) {
    return {a.numerator_ * b.denominator_ + b.numerator_ * a.denominator_,
            a.denominator_ * b.denominator_};
  }
  friend constexpr Rational operator-(Rational a, Rational b) { return a + b * Rational(-1); }
  friend constexpr Rational operator*(Rational a, Rational b) {
    return {a.numerator_ * b.numerator_, a.denominator_ * b.denominator_};
  }
  // b is not zero.
  friend constexpr Rational operator/(Rational a, Rational b) {
    return {a.numerator_ * b.denominator_, a.denominator_ * b.numerator_};
  }
  friend constexpr bool operator==(Rational a, Rational b) = default;
  friend constexpr std::strong_ordering operator<=>(Rational a, Rational b) {
    return a.numerator_ * b.denominator_ <=> b.numerator_ * a.denominator_;
  }

 private:
  int64_t numerator_ = 0;
  int64_t denominator_ = 1;
};

}  // namespace tutti::schedule
