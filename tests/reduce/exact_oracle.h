// Exact sums of floating-point numbers in the plainest arithmetic there is: sums of magnitudes as
// long whole numbers, and rounding by search among the type's values. Shares nothing with the
// library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::reference {

// A whole number below 2^2400, in units of the least subnormal float64.
class Whole {
 public:
  void add(uint64_t value, int shift);  // value * 2^shift
  void add(const Whole& other);
  void subtract(const Whole& smaller);
  int compare(const Whole& other) const;  // < 0, 0, > 0
  bool zero() const;

 private:
  std::vector<uint32_t> digits_ = std::vector<uint32_t>(75);
};

// By the number of bits of its fields; `finite_top`: the largest exponent field is that of ordinary
// numbers, and only the largest pattern is NaN, as in e4m3.
struct Float {
  int mantissa_bits;
  int exponent_bits;
  bool finite_top = false;

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint64_t infinity() const;  // the least pattern that is not finite
  uint64_t nan() const;       // canonical
};

// The sum of the patterns, exact and then rounded once to nearest even, as the contract says.
uint64_t exact_sum(const Float& type, const std::vector<uint64_t>& patterns);
// The same rounded to another type.
uint64_t exact_sum(const Float& type, const std::vector<uint64_t>& patterns, const Float& result);

}  // namespace tutti::reference
