#include "tests/reduce/reference.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "lib/types.h"

namespace tutti::reference {
namespace {

// A binary floating-point format of 16 bits; the conversions work on values, not on bit patterns.
struct Format16 {
  int mantissa_bits;
  int least_exponent;  // of a normal number
  int greatest_exponent;
};
constexpr Format16 kFloat16{10, -14, 15};
constexpr Format16 kBFloat16{7, -126, 127};

float widen(Format16 format, uint16_t bits) {
  const int exponent_field = (bits & 0x7FFF) >> format.mantissa_bits;
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
  return static_cast<float>((bits & 0x8000) != 0 ? -value : value);
}

uint16_t narrow(Format16 format, float value) {
  const int infinity = (format.greatest_exponent - format.least_exponent + 2)
                       << format.mantissa_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | 1 << (format.mantissa_bits - 1));
  const int sign = std::signbit(value) ? 0x8000 : 0;
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
Bits fold_integers(tutti_op op, const std::vector<Bits>& operands) {
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
Bits fold_floats(tutti_op op, const std::vector<Bits>& operands) {
  T value = std::bit_cast<T>(static_cast<Unsigned>(operands[0]));
  for (size_t k = 1; k < operands.size(); ++k) {
    value = float_op<T>(op, value, std::bit_cast<T>(static_cast<Unsigned>(operands[k])));
  }
  return bits_of(value);
}

Bits fold_halves(Format16 format, tutti_op op, const std::vector<Bits>& operands) {
  float value = widen(format, static_cast<uint16_t>(operands[0]));
  for (size_t k = 1; k < operands.size(); ++k) {
    value = float_op<float>(op, value, widen(format, static_cast<uint16_t>(operands[k])));
  }
  return narrow(format, value);
}

template <class T>
Bits divide_integer(Bits value, uint32_t divisor) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  return static_cast<std::make_unsigned_t<T>>(static_cast<Wide>(static_cast<T>(value)) /
                                              static_cast<Wide>(divisor));
}

}  // namespace

Bits fold(tutti_dtype dtype, tutti_op op, const std::vector<Bits>& operands) {
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
    case TUTTI_FLOAT16:
      return fold_halves(kFloat16, op, operands);
    case TUTTI_BFLOAT16:
      return fold_halves(kBFloat16, op, operands);
    case TUTTI_FLOAT32:
      return fold_floats<float, uint32_t>(op, operands);
    default:
      return fold_floats<double, uint64_t>(op, operands);
  }
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
    case TUTTI_FLOAT16:
      return narrow(kFloat16, widen(kFloat16, static_cast<uint16_t>(value)) / by);
    case TUTTI_BFLOAT16:
      return narrow(kBFloat16, widen(kBFloat16, static_cast<uint16_t>(value)) / by);
    case TUTTI_FLOAT32:
      return bits_of(std::bit_cast<float>(static_cast<uint32_t>(value)) / by);
    default:
      return bits_of(std::bit_cast<double>(value) / static_cast<double>(divisor));
  }
}

std::vector<Bits> edge_values(tutti_dtype dtype) {
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
  const size_t mantissa_bits = dtype == TUTTI_FLOAT16    ? 10
                               : dtype == TUTTI_BFLOAT16 ? 7
                               : dtype == TUTTI_FLOAT32  ? 23
                                                         : 52;
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
