#include "tests/reduce/reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "lib/base/types.h"

namespace tutti::reference {
namespace {

// A binary floating-point format of 8 or 16 bits; the conversions work on values, not on bit
// patterns.
struct Narrow {
  int mantissa_bits;
  int least_exponent;     // of a normal number
  int greatest_exponent;  // with an infinity above it, but for e4m3
  int bits = 16;
};
constexpr Narrow kFloat16{10, -14, 15};
constexpr Narrow kBFloat16{7, -126, 127};
constexpr Narrow kE5M2{2, -14, 15, 8};

float widen(Narrow format, uint16_t bits) {
  const int top = 1 << (format.bits - 1);
  const int exponent_field = (bits & (top - 1)) >> format.mantissa_bits;
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  double value = 0;
  if (exponent_field == format.greatest_exponent - format.least_exponent + 2) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent_field == 0) {
    value = std::ldexp(mantissa, format.least_exponent - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << format.mantissa_bits),
                       exponent_field - 1 + format.least_exponent - format.mantissa_bits);
  }
  return static_cast<float>((bits & top) != 0 ? -value : value);
}

uint16_t narrow(Narrow format, float value) {
  const int infinity = (format.greatest_exponent - format.least_exponent + 2)
                       << format.mantissa_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | 1 << (format.mantissa_bits - 1));
  const int sign = std::signbit(value) ? 1 << (format.bits - 1) : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return static_cast<uint16_t>(sign);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  const int exponent = std::max(std::ilogb(magnitude), format.least_exponent);
  // In units of the last place; the processor's default is to nearest even. Rounding up to the next
  // power of two carries into the exponent field, as it should.
  const auto units =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  const int bits = ((exponent - format.least_exponent) << format.mantissa_bits) + units;
  return static_cast<uint16_t>(sign | std::min(bits, infinity));
}

// All magnitudes of e4m3 in ascending order, by their bit patterns from 0 to 0x7E.
double e4m3_magnitude(int pattern) {
  static const auto all = [] {
    std::array<double, 0x7F> values{};
    for (int i = 0; i < 0x7F; ++i) {
      const int exponent = i >> 3, mantissa = i & 7;
      values[size_t(i)] =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    }
    return values;
  }();
  return all[size_t(pattern)];
}

float widen_e4m3(uint8_t bits) {
  const int pattern = bits & 0x7F;
  const double value =
      pattern == 0x7F ? std::numeric_limits<double>::quiet_NaN() : e4m3_magnitude(pattern);
  return static_cast<float>((bits & 0x80) != 0 ? -value : value);
}

// To the nearest of them, of two the one with the even pattern; 480 would be the next one.
uint8_t narrow_e4m3(float value) {
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isnan(value) || magnitude > 464) return 0x7F;
  int best = 0;
  while (best < 0x7E && e4m3_magnitude(best + 1) <= magnitude) ++best;
  if (best < 0x7E) {
    const double below = magnitude - e4m3_magnitude(best);
    const double above = e4m3_magnitude(best + 1) - magnitude;
    if (above < below || (above == below && best % 2 == 1)) ++best;
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

// The types that are computed in float32.
float widen(tutti_dtype dtype, Bits bits) {
  switch (dtype) {
    case TUTTI_FLOAT16:
      return widen(kFloat16, static_cast<uint16_t>(bits));
    case TUTTI_BFLOAT16:
      return widen(kBFloat16, static_cast<uint16_t>(bits));
    case TUTTI_FLOAT8_E5M2:
      return widen(kE5M2, static_cast<uint16_t>(bits));
    default:
      return widen_e4m3(static_cast<uint8_t>(bits));
  }
}

Bits narrow(tutti_dtype dtype, float value) {
  switch (dtype) {
    case TUTTI_FLOAT16:
      return narrow(kFloat16, value);
    case TUTTI_BFLOAT16:
      return narrow(kBFloat16, value);
    case TUTTI_FLOAT8_E5M2:
      return narrow(kE5M2, value);
    default:
      return narrow_e4m3(value);
  }
}

template <class T>
T float_op(tutti_op op, T a, T b) {
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVG:
      return a + b;
    case TUTTI_PROD:
      return a * b;
    default:
      break;
  }
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return (op == TUTTI_MIN) == a_is_less ? a : b;
}

template <class T>
T integer_op(tutti_op op, T a, T b) {
  using Wide = unsigned long long;  // wraps around, and so does what is cut from it
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVG:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    case TUTTI_PROD:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case TUTTI_MIN:
      return b < a ? b : a;
    case TUTTI_MAX:
      return b > a ? b : a;
    case TUTTI_LAND:
      return a != 0 && b != 0;
    case TUTTI_LOR:
      return a != 0 || b != 0;
    case TUTTI_LXOR:
      return (a != 0) != (b != 0);
    case TUTTI_BAND:
      return static_cast<T>(a & b);
    case TUTTI_BOR:
      return static_cast<T>(a | b);
    default:
      return static_cast<T>(a ^ b);
  }
}

template <class T>
Bits fold_integers(tutti_op op, std::span<const Bits> operands) {
  T value = static_cast<T>(operands[0]);
  for (size_t k = 1; k < operands.size(); ++k) {
    value = integer_op<T>(op, value, static_cast<T>(operands[k]));
  }
  return static_cast<std::make_unsigned_t<T>>(value);
}

// Bits of a float, NaN as the contract says.
Bits bits_of(float value) {
  return std::isnan(value) ? 0x7FC00000u : std::bit_cast<uint32_t>(value);
}
Bits bits_of(double value) {
  return std::isnan(value) ? 0x7FF8000000000000u : std::bit_cast<uint64_t>(value);
}

template <class T, class Unsigned>
Bits fold_floats(tutti_op op, std::span<const Bits> operands) {
  T value = std::bit_cast<T>(static_cast<Unsigned>(operands[0]));
  for (size_t k = 1; k < operands.size(); ++k) {
    value = float_op<T>(op, value, std::bit_cast<T>(static_cast<Unsigned>(operands[k])));
  }
  return bits_of(value);
}

Bits fold_narrow(tutti_dtype dtype, tutti_op op, std::span<const Bits> operands) {
  float value = widen(dtype, operands[0]);
  for (size_t k = 1; k < operands.size(); ++k) {
    value = float_op<float>(op, value, widen(dtype, operands[k]));
  }
  return narrow(dtype, value);
}

Bits fold_bools(tutti_op op, std::span<const Bits> operands) {
  size_t trues = 0;
  for (const Bits operand : operands) trues += operand != 0;
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_MAX:
    case TUTTI_LOR:
    case TUTTI_BOR:
      return trues != 0;
    case TUTTI_LXOR:
    case TUTTI_BXOR:
      return trues % 2;
    default:
      return trues == operands.size();
  }
}

// The two halves of an element.
template <class Unsigned>
Bits joined(Bits first, Bits second) {
  return second << (8 * sizeof(Unsigned)) | static_cast<Unsigned>(first);
}
template <class Unsigned>
Unsigned half_of(Bits bits, int which) {
  return static_cast<Unsigned>(bits >> (which * 8 * sizeof(Unsigned)));
}

template <class T, class Unsigned>
Bits fold_complex(tutti_op op, std::span<const Bits> operands) {
  T real = std::bit_cast<T>(half_of<Unsigned>(operands[0], 0));
  T imaginary = std::bit_cast<T>(half_of<Unsigned>(operands[0], 1));
  for (size_t k = 1; k < operands.size(); ++k) {
    const T c = std::bit_cast<T>(half_of<Unsigned>(operands[k], 0));
    const T d = std::bit_cast<T>(half_of<Unsigned>(operands[k], 1));
    if (op == TUTTI_PROD) {
      const T a = real, b = imaginary;
      real = a * c - b * d;
      imaginary = a * d + b * c;
    } else {
      real += c;
      imaginary += d;
    }
  }
  return joined<Unsigned>(bits_of(real), bits_of(imaginary));
}

// Value is how the first half is compared.
template <class Value, class Unsigned>
Bits fold_located(tutti_op op, std::span<const Bits> operands) {
  using Index = std::make_signed_t<Unsigned>;
  Bits best = operands[0];
  for (size_t k = 1; k < operands.size(); ++k) {
    const Value a = std::bit_cast<Value>(half_of<Unsigned>(best, 0));
    const Value b = std::bit_cast<Value>(half_of<Unsigned>(operands[k], 0));
    bool b_wins = op == TUTTI_MINLOC ? b < a : b > a;
    bool equal = b == a;
    if constexpr (std::is_floating_point_v<Value>) {
      if (a == 0 && b == 0) {
        equal = std::signbit(a) == std::signbit(b);
        b_wins = !equal && std::signbit(b) == (op == TUTTI_MINLOC);
      }
      if (std::isnan(a) || std::isnan(b)) {
        equal = std::isnan(a) && std::isnan(b);
        b_wins = !std::isnan(a);
      }
    }
    const auto index = [](Bits bits) { return static_cast<Index>(half_of<Unsigned>(bits, 1)); };
    if (b_wins || (equal && index(operands[k]) < index(best))) best = operands[k];
  }
  if constexpr (std::is_floating_point_v<Value>) {
    const Value value = std::bit_cast<Value>(half_of<Unsigned>(best, 0));
    return joined<Unsigned>(bits_of(value), half_of<Unsigned>(best, 1));
  }
  return best;
}

template <class T>
Bits divide_integer(Bits value, uint32_t divisor) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  return static_cast<std::make_unsigned_t<T>>(static_cast<Wide>(static_cast<T>(value)) /
                                              static_cast<Wide>(divisor));
}

}  // namespace

Bits fold(tutti_dtype dtype, tutti_op op, std::span<const Bits> operands) {
  if (operands.size() == 1) return operands[0];
  switch (dtype) {
    case TUTTI_INT8:
      return fold_integers<int8_t>(op, operands);
    case TUTTI_INT16:
      return fold_integers<int16_t>(op, operands);
    case TUTTI_INT32:
      return fold_integers<int32_t>(op, operands);
    case TUTTI_INT64:
      return fold_integers<int64_t>(op, operands);
    case TUTTI_UINT8:
      return fold_integers<uint8_t>(op, operands);
    case TUTTI_UINT16:
      return fold_integers<uint16_t>(op, operands);
    case TUTTI_UINT32:
      return fold_integers<uint32_t>(op, operands);
    case TUTTI_UINT64:
      return fold_integers<uint64_t>(op, operands);
    case TUTTI_FLOAT32:
      return fold_floats<float, uint32_t>(op, operands);
    case TUTTI_FLOAT64:
      return fold_floats<double, uint64_t>(op, operands);
    case TUTTI_COMPLEX64:
      return fold_complex<float, uint32_t>(op, operands);
    case TUTTI_COMPLEX128:
      return fold_complex<double, uint64_t>(op, operands);
    case TUTTI_BOOL:
      return fold_bools(op, operands);
    case TUTTI_FLOAT32_INT32:
      return fold_located<float, uint32_t>(op, operands);
    case TUTTI_FLOAT64_INT64:
      return fold_located<double, uint64_t>(op, operands);
    case TUTTI_INT32_INT32:
      return fold_located<int32_t, uint32_t>(op, operands);
    case TUTTI_INT64_INT64:
      return fold_located<int64_t, uint64_t>(op, operands);
    default:
      return fold_narrow(dtype, op, operands);
  }
}

Bits fold(tutti_dtype dtype, tutti_op op, Bits left, Bits right) {
  const Bits operands[] = {left, right};
  return fold(dtype, op, operands);
}

Bits divide(tutti_dtype dtype, Bits value, uint32_t divisor) {
  const auto by = static_cast<float>(divisor);
  switch (dtype) {
    case TUTTI_INT8:
      return divide_integer<int8_t>(value, divisor);
    case TUTTI_INT16:
      return divide_integer<int16_t>(value, divisor);
    case TUTTI_INT32:
      return divide_integer<int32_t>(value, divisor);
    case TUTTI_INT64:
      return divide_integer<int64_t>(value, divisor);
    case TUTTI_UINT8:
      return divide_integer<uint8_t>(value, divisor);
    case TUTTI_UINT16:
      return divide_integer<uint16_t>(value, divisor);
    case TUTTI_UINT32:
      return divide_integer<uint32_t>(value, divisor);
    case TUTTI_UINT64:
      return divide_integer<uint64_t>(value, divisor);
    case TUTTI_FLOAT32:
      return bits_of(std::bit_cast<float>(static_cast<uint32_t>(value)) / by);
    case TUTTI_FLOAT64:
      return bits_of(std::bit_cast<double>(static_cast<uint64_t>(value)) /
                     static_cast<double>(divisor));
    case TUTTI_COMPLEX64:
      return joined<uint32_t>(divide(TUTTI_FLOAT32, half_of<uint32_t>(value, 0), divisor),
                              divide(TUTTI_FLOAT32, half_of<uint32_t>(value, 1), divisor));
    case TUTTI_COMPLEX128:
      return joined<uint64_t>(divide(TUTTI_FLOAT64, half_of<uint64_t>(value, 0), divisor),
                              divide(TUTTI_FLOAT64, half_of<uint64_t>(value, 1), divisor));
    default:
      return narrow(dtype, widen(dtype, value) / by);
  }
}

std::string hex(Bits bits) {
  std::string digits;
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[bits % 16]);
    bits /= 16;
  } while (bits != 0);
  return digits;
}

namespace {

// Each with some other one.
template <class Unsigned>
std::vector<Bits> pairs_of(const std::vector<Bits>& firsts, const std::vector<Bits>& seconds) {
  std::vector<Bits> pairs;
  for (size_t i = 0; i < std::max(firsts.size(), seconds.size()); ++i) {
    for (const size_t shift : {0, 1, 5, 11}) {
      pairs.push_back(
          joined<Unsigned>(firsts[i % firsts.size()], seconds[(i + shift) % seconds.size()]));
    }
  }
  return pairs;
}

}  // namespace

std::vector<Bits> edge_values(tutti_dtype dtype) {
  switch (dtype) {
    case TUTTI_COMPLEX64:
      return pairs_of<uint32_t>(edge_values(TUTTI_FLOAT32), edge_values(TUTTI_FLOAT32));
    case TUTTI_COMPLEX128:
      return pairs_of<uint64_t>(edge_values(TUTTI_FLOAT64), edge_values(TUTTI_FLOAT64));
    case TUTTI_FLOAT32_INT32:
      return pairs_of<uint32_t>(edge_values(TUTTI_FLOAT32), edge_values(TUTTI_INT32));
    case TUTTI_FLOAT64_INT64:
      return pairs_of<uint64_t>(edge_values(TUTTI_FLOAT64), edge_values(TUTTI_INT64));
    case TUTTI_INT32_INT32:
      return pairs_of<uint32_t>(edge_values(TUTTI_INT32), edge_values(TUTTI_INT32));
    case TUTTI_INT64_INT64:
      return pairs_of<uint64_t>(edge_values(TUTTI_INT64), edge_values(TUTTI_INT64));
    default:
      break;
  }
  const size_t bits = 8 * dtype_size(dtype);
  const Bits top = Bits{1} << (bits - 1);
  // Around zero and around the sign: for integers the least and greatest values, for floats the
  // zeros, the least subnormals, and NaN with every bit set.
  std::vector<Bits> values = {0, 1, 2, top - 1, top, top + 1, top + (top - 1)};
  if (!dtype_is_float(dtype)) {
    values.push_back(Bits{1} << (bits / 2));
    values.push_back((Bits{1} << (bits / 2)) - 1);
    return values;
  }
  const size_t mantissa_bits = dtype == TUTTI_FLOAT16       ? 10
                               : dtype == TUTTI_BFLOAT16    ? 7
                               : dtype == TUTTI_FLOAT32     ? 23
                               : dtype == TUTTI_FLOAT64     ? 52
                               : dtype == TUTTI_FLOAT8_E4M3 ? 3
                                                            : 2;
  const Bits least_normal = Bits{1} << mantissa_bits;
  const Bits infinity = top - least_normal;
  const Bits one = (infinity >> 1) & ~(least_normal - 1);
  for (const Bits magnitude :
       {least_normal - 1, least_normal, least_normal + 1, least_normal / 2, one, one + 1, one - 1,
        one + least_normal, infinity - 1, infinity - least_normal, infinity,
        infinity + 1,                        // signalling NaN
        infinity + least_normal / 2,         // quiet NaN
        infinity + least_normal / 2 + 5}) {  // with a payload
    values.push_back(magnitude);
    values.push_back(magnitude | top);
  }
  return values;
}

}  // namespace tutti::reference
