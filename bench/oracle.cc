#include "bench/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace tutti::bench {
namespace {

bool is_complex(tutti_dtype dtype) { return dtype == TUTTI_COMPLEX64 || dtype == TUTTI_COMPLEX128; }
bool is_located(tutti_dtype dtype) {
  return dtype >= TUTTI_FLOAT32_INT32 && dtype <= TUTTI_INT64_INT64;
}
bool is_integer(tutti_dtype dtype) { return dtype <= TUTTI_UINT64; }
bool is_unsigned(tutti_dtype dtype) { return dtype >= TUTTI_UINT8 && dtype <= TUTTI_UINT64; }

size_t element_size(tutti_dtype dtype) {
  static constexpr size_t sizes[] = {1, 2,  4, 8, 1, 2, 4,  8, 2,  2,  4, 8,
                                     8, 16, 1, 1, 1, 8, 16, 8, 16, 32, 64};
  static_assert(std::size(sizes) == TUTTI_DTYPE_COUNT);
  return sizes[dtype];
}

// All integers up to this one are representable in the type.
int64_t exact_up_to(tutti_dtype dtype) {
  switch (dtype) {
    case TUTTI_INT8:
      return 127;
    case TUTTI_UINT8:
      return 255;
    case TUTTI_BFLOAT16:
      return 256;
    case TUTTI_FLOAT16:
      return 2048;
    case TUTTI_FLOAT8_E4M3:
      return 16;
    case TUTTI_FLOAT8_E5M2:
      return 8;
    default:
      return 30000;
  }
}

// SplitMix64's finaliser: equal inputs give equal values on every machine.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
uint64_t of_index(size_t index) { return mix(index); }
uint64_t of_both(int rank, size_t index) { return mix(mix(uint64_t(rank) + 1) ^ index); }

// In [-bound, bound], or [0, bound] without a sign.
int64_t within(uint64_t hash, int64_t bound, bool no_sign) {
  auto range = uint64_t(no_sign ? bound + 1 : 2 * bound + 1);
  return int64_t(hash % range) - (no_sign ? 0 : bound);
}

int64_t sum_value(tutti_dtype dtype, int nranks, int rank, size_t index) {
  const int64_t most = exact_up_to(dtype);
  if (rank >= most) return 0;
  return within(of_both(rank, index), std::clamp<int64_t>(most / nranks, 1, 100),
                is_unsigned(dtype));
}

// The mean must be a whole number: the deviations of neighbouring ranks cancel.
int64_t float_mean_value(tutti_dtype dtype, int nranks, int rank, size_t index) {
  const int64_t most = exact_up_to(dtype);
  if (nranks > most) {  // a mean of 1 would be too large: pairs cancel, the others are 0
    const auto own = int64_t(of_index(index) & 1);
    return rank < most ? (rank % 2 ? -own : own) : 0;
  }
  const int64_t bound = std::clamp<int64_t>(most / nranks, 1, 100);
  const int64_t mean = within(of_index(index), bound - bound / 2, false);
  const auto deviation = int64_t((of_index(index) >> 32) % uint64_t(bound / 2 + 1));
  if (rank == nranks - 1 && nranks % 2 == 1) return mean;
  return rank % 2 ? mean - deviation : mean + deviation;
}

// At most five factors of 2 an element, and signs where there are any.
int64_t product_value(tutti_dtype dtype, int nranks, int rank, size_t index) {
  const uint64_t twos = std::min<uint64_t>(of_index(index) % 6, uint64_t(nranks));
  const bool two = (uint64_t(rank) + index) % uint64_t(nranks) < twos;
  const bool negative = !is_unsigned(dtype) && (of_both(rank, index) & 1);
  return (two ? 2 : 1) * (negative ? -1 : 1);
}

// All ranks agree except one that `index` picks: the only way that `and` and `or` of many ranks
// still depend on each of them.
bool is_odd_one(int nranks, int rank, size_t index) {
  return (of_index(index) >> 8) % uint64_t(nranks) == uint64_t(rank) && (of_index(index) & 3) != 0;
}

int64_t logical_value(tutti_op op, int nranks, int rank, size_t index) {
  const auto truth = int64_t(of_both(rank, index) % 3 + 1);
  if (op == TUTTI_LAND) return is_odd_one(nranks, rank, index) ? 0 : truth;
  if (op == TUTTI_LOR) return is_odd_one(nranks, rank, index) ? truth : 0;
  return of_both(rank, index) & 8 ? truth : 0;
}

int64_t bitwise_value(tutti_op op, int rank, size_t index) {
  if (op == TUTTI_BXOR) return int64_t(of_both(rank, index));
  const uint64_t common = of_index(index);
  // A bit of every byte, so that narrow types see the rank too.
  const uint64_t own = 0x0101010101010101u << ((unsigned(rank) + index) % 8);
  return int64_t(op == TUTTI_BAND ? common & ~own : common | own);
}

// A few ranks have 2+i or -2-i, rank 0 always, so that it is in every prefix: no power of it has a
// component 0, whose sign would depend on the order of multiplication. The others have 1 or -1.
OracleValue complex_product_value(int nranks, int rank, size_t index) {
  const int64_t sign = of_both(rank, index) & 1 ? -1 : 1;
  const uint64_t factors = std::min<uint64_t>(1 + of_index(index) % 5, uint64_t(nranks));
  const bool factor = rank == 0 || (uint64_t(rank) + index) % uint64_t(nranks) < factors;
  return factor ? OracleValue{2 * sign, sign} : OracleValue{sign, 0};
}

// Few values, so that indices often decide; not monotonic in the rank.
OracleValue located_value(int nranks, int rank, size_t index) {
  const int64_t first = within(of_both(rank, index), 2, false);
  const auto shift = of_index(index) % uint64_t(nranks);
  return {first, int64_t((uint64_t(nranks - rank) + shift) % uint64_t(nranks))};
}

// The logical operator that an operator on bool is equivalent to.
tutti_op logical(tutti_op op) {
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_MAX:
    case TUTTI_BOR:
      return TUTTI_LOR;
    case TUTTI_PROD:
    case TUTTI_MIN:
    case TUTTI_BAND:
      return TUTTI_LAND;
    case TUTTI_BXOR:
      return TUTTI_LXOR;
    default:
      return op;
  }
}

// What a real number, or one component of a complex one, contributes.
int64_t component(tutti_dtype dtype, tutti_op op, int nranks, int rank, size_t index) {
  switch (op) {
    case TUTTI_SUM:
      return sum_value(dtype, nranks, rank, index);
    case TUTTI_AVG:
      return is_integer(dtype) ? sum_value(dtype, nranks, rank, index)
                               : float_mean_value(dtype, nranks, rank, index);
    case TUTTI_PROD:
      return product_value(dtype, nranks, rank, index);
    case TUTTI_MIN:
    case TUTTI_MAX:
      return within(of_both(rank, index), std::min<int64_t>(100, exact_up_to(dtype)),
                    is_unsigned(dtype));
    case TUTTI_LAND:
    case TUTTI_LOR:
    case TUTTI_LXOR:
      return logical_value(op, nranks, rank, index);
    default:
      return bitwise_value(op, rank, index);
  }
}

int64_t fold(tutti_op op, int64_t lower, int64_t higher) {
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVG:
      return lower + higher;
    case TUTTI_PROD:
      return lower * higher;
    case TUTTI_MIN:
      return std::min(lower, higher);
    case TUTTI_MAX:
      return std::max(lower, higher);
    case TUTTI_LAND:
      return lower && higher;
    case TUTTI_LOR:
      return lower || higher;
    case TUTTI_LXOR:
      return !lower != !higher;
    case TUTTI_BAND:
      return lower & higher;
    case TUTTI_BOR:
      return lower | higher;
    default:
      return lower ^ higher;
  }
}

OracleValue fold(tutti_dtype dtype, tutti_op op, OracleValue a, OracleValue b) {
  if (is_complex(dtype) && op == TUTTI_PROD) {
    return {a.first * b.first - a.second * b.second, a.first * b.second + a.second * b.first};
  }
  if (is_located(dtype)) {
    if (a.first == b.first) return a.second < b.second ? a : b;
    return (a.first < b.first) == (op == TUTTI_MINLOC) ? a : b;
  }
  return {fold(op, a.first, b.first), fold(op, a.second, b.second)};
}

// The reduction of the first `ranks` ranks; for a mean, the sum.
OracleValue folded_value(tutti_dtype dtype, tutti_op op, int nranks, int ranks, size_t index) {
  if (dtype == TUTTI_BOOL) op = logical(op);
  OracleValue result = Oracle::value(dtype, op, nranks, 0, index);
  if (op >= TUTTI_LAND && op <= TUTTI_LXOR) result.first = result.first != 0;
  for (int rank = 1; rank < ranks; ++rank)
    result = fold(dtype, op, result, Oracle::value(dtype, op, nranks, rank, index));
  return result;
}

// A number in a float format of `bytes` bytes with IEEE's order of sign, exponent and mantissa,
// rounded once to nearest, ties to even. It must not be too large.
void store_narrow(double value, int mantissa_bits, int bias, size_t bytes, void* out) {
  const double magnitude = std::fabs(value);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, 1 - bias);
  const auto units = uint32_t(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  const uint32_t pattern = (uint32_t(exponent + bias - 1) << mantissa_bits) + units;
  const uint32_t sign = value < 0 ? 1u << (8 * bytes - 1) : 0;
  const uint32_t result = magnitude == 0 ? 0 : pattern | sign;
  std::memcpy(out, &result, bytes);  // little-endian
}

// Rounded once: the operands of a quotient are exact in double and float.
void store_real(tutti_dtype dtype, double first, double second, void* out) {
  const float singles[] = {float(first), float(second)};
  const double doubles[] = {first, second};
  switch (dtype) {
    case TUTTI_FLOAT16:
      return store_narrow(first, 10, 15, 2, out);
    case TUTTI_BFLOAT16:
      return store_narrow(first, 7, 127, 2, out);
    case TUTTI_FLOAT8_E4M3:
      return store_narrow(first, 3, 7, 1, out);
    case TUTTI_FLOAT8_E5M2:
      return store_narrow(first, 2, 15, 1, out);
    case TUTTI_FLOAT32:
    case TUTTI_COMPLEX64:
      std::memcpy(out, singles, element_size(dtype));
      return;
    default:
      std::memcpy(out, doubles, element_size(dtype));
  }
}

bool is_real(tutti_dtype dtype) { return dtype >= TUTTI_FLOAT16 && dtype <= TUTTI_FLOAT8_E5M2; }

size_t count_different(const std::vector<unsigned char>& pattern, size_t element,
                       const void* buffer, size_t count, size_t begin) {
  const auto* bytes = static_cast<const unsigned char*>(buffer);
  size_t wrong = 0;
  for (size_t at = 0; at < count;) {
    const size_t phase = (begin + at) % Oracle::period;
    const size_t n = std::min(Oracle::period - phase, count - at);
    const unsigned char* block = bytes + at * element;
    const unsigned char* expected = pattern.data() + phase * element;
    at += n;
    if (std::memcmp(block, expected, n * element) == 0) continue;
    for (size_t i = 0; i < n; ++i)
      wrong += std::memcmp(block + i * element, expected + i * element, element) != 0;
  }
  return wrong;
}

}  // namespace

void store_element(tutti_dtype dtype, OracleValue value, void* out) {
  if (is_real(dtype)) return store_real(dtype, double(value.first), double(value.second), out);
  switch (dtype) {
    case TUTTI_FLOAT32_INT32: {
      const tutti_float32_int32 pair = {float(value.first), int32_t(value.second)};
      std::memcpy(out, &pair, sizeof pair);
      break;
    }
    case TUTTI_FLOAT64_INT64: {
      const tutti_float64_int64 pair = {double(value.first), value.second};
      std::memcpy(out, &pair, sizeof pair);
      break;
    }
    case TUTTI_INT32_INT32: {
      const tutti_int32_int32 pair = {int32_t(value.first), int32_t(value.second)};
      std::memcpy(out, &pair, sizeof pair);
      break;
    }
    case TUTTI_INT64_INT64: {
      const tutti_int64_int64 pair = {value.first, value.second};
      std::memcpy(out, &pair, sizeof pair);
      break;
    }
    default:
      std::memcpy(out, &value.first, element_size(dtype));  // two's complement, little-endian
  }
}

bool Oracle::knows(tutti_dtype dtype, tutti_op op) {
  return dtype >= TUTTI_INT8 && dtype < TUTTI_BINNED_FLOAT32 && op >= TUTTI_SUM &&
         op < TUTTI_OP_COUNT;
}

OracleValue Oracle::value(tutti_dtype dtype, tutti_op op, int nranks, int rank, size_t index) {
  index %= period;
  if (dtype == TUTTI_BOOL) op = logical(op);
  if (is_located(dtype)) return located_value(nranks, rank, index);
  if (!is_complex(dtype)) return {component(dtype, op, nranks, rank, index), 0};
  if (op == TUTTI_PROD) return complex_product_value(nranks, rank, index);
  return {component(dtype, op, nranks, rank, index),
          component(dtype, op, nranks, rank, index + period)};
}

Oracle::Oracle(tutti_dtype dtype, tutti_op op, int nranks, int rank)
    : dtype_(dtype),
      op_(op),
      nranks_(nranks),
      rank_(rank),
      element_(element_size(dtype)),
      inputs_(size_t(nranks)),
      reductions_(size_t(nranks)) {}

const Oracle::Pattern& Oracle::input_of(int rank) const {
  Pattern& pattern = inputs_[size_t(rank)];
  if (!pattern.empty()) return pattern;
  pattern.resize(period * element_);
  for (size_t i = 0; i < period; ++i)
    store_element(dtype_, value(dtype_, op_, nranks_, rank, i), &pattern[i * element_]);
  return pattern;
}

const Oracle::Pattern& Oracle::reduction_of(int ranks) const {
  Pattern& pattern = reductions_[size_t(ranks - 1)];
  if (!pattern.empty()) return pattern;
  pattern.resize(period * element_);
  for (size_t i = 0; i < period; ++i) {
    const OracleValue sum = folded_value(dtype_, op_, nranks_, ranks, i);
    unsigned char* out = &pattern[i * element_];
    if (op_ != TUTTI_AVG)
      store_element(dtype_, sum, out);
    else if (is_real(dtype_))
      store_real(dtype_, double(sum.first) / ranks, double(sum.second) / ranks, out);
    else  // towards zero, as C does
      store_element(dtype_, {sum.first / ranks, sum.second / ranks}, out);
  }
  return pattern;
}

void Oracle::fill(void* buffer, size_t count) const {
  auto* bytes = static_cast<unsigned char*>(buffer);
  const Pattern& input = input_of(rank_);
  for (size_t at = 0; at < count; at += period)
    std::memcpy(bytes + at * element_, input.data(), std::min(period, count - at) * element_);
}

size_t Oracle::wrong_reduction(const void* buffer, size_t count, int ranks, size_t begin) const {
  return count_different(reduction_of(ranks), element_, buffer, count, begin);
}

size_t Oracle::wrong_copy(const void* buffer, size_t count, int from, size_t begin) const {
  return count_different(input_of(from), element_, buffer, count, begin);
}

}  // namespace tutti::bench
