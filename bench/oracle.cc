#include "bench/oracle.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tutti::bench {
namespace {

bool is_float(tutti_dtype dtype) { return dtype >= TUTTI_FLOAT16; }
bool is_unsigned(tutti_dtype dtype) { return dtype >= TUTTI_UINT8 && dtype <= TUTTI_UINT64; }

size_t element_size(tutti_dtype dtype) {
  static constexpr size_t sizes[TUTTI_DTYPE_COUNT] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[dtype];
}

// All integers up to it are representable.
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

// The mean must be a whole number: what one rank adds to it, the next one takes away.
int64_t float_mean_value(tutti_dtype dtype, int nranks, int rank, size_t index) {
  const int64_t bound = std::clamp<int64_t>(exact_up_to(dtype) / nranks, 1, 100);
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

// Of the first `ranks` ranks; of a mean, the sum.
int64_t folded_value(tutti_dtype dtype, tutti_op op, int nranks, int ranks, size_t index) {
  int64_t result = Oracle::value(dtype, op, nranks, 0, index);
  if (op >= TUTTI_LAND && op <= TUTTI_LXOR) result = result != 0;
  for (int rank = 1; rank < ranks; ++rank)
    result = fold(op, result, Oracle::value(dtype, op, nranks, rank, index));
  return result;
}

// Rounds the bits of a float to those above `dropped`, to nearest, ties to even.
uint32_t rounded(uint32_t bits, unsigned dropped) {
  return (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped;
}

// Rounded once: operands of a quotient are so short that double and float lose nothing before.
void store_real(tutti_dtype dtype, double value, void* out) {
  const auto single = float(value);
  const auto bits = std::bit_cast<uint32_t>(single);
  if (dtype == TUTTI_FLOAT64) {
    std::memcpy(out, &value, sizeof value);
  } else if (dtype == TUTTI_FLOAT32) {
    std::memcpy(out, &single, sizeof single);
  } else if (dtype == TUTTI_BFLOAT16) {
    const auto upper = uint16_t(rounded(bits, 16));
    std::memcpy(out, &upper, sizeof upper);
  } else {
    // Quotients of small numbers are normal in binary16: only the exponent's bias changes.
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t half = magnitude ? rounded(magnitude - (112u << 23), 13) : 0;
    const auto with_sign = uint16_t(half | (bits >> 16 & 0x8000u));
    std::memcpy(out, &with_sign, sizeof with_sign);
  }
}

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

void store_element(tutti_dtype dtype, int64_t value, void* out) {
  if (is_float(dtype)) return store_real(dtype, double(value), out);
  std::memcpy(out, &value, element_size(dtype));  // two's complement, little-endian
}

bool Oracle::knows(tutti_dtype dtype, tutti_op op) {
  return dtype >= TUTTI_INT8 && dtype <= TUTTI_FLOAT64 && op >= TUTTI_SUM && op <= TUTTI_BXOR;
}

int64_t Oracle::value(tutti_dtype dtype, tutti_op op, int nranks, int rank, size_t index) {
  index %= period;
  switch (op) {
    case TUTTI_SUM:
      return sum_value(dtype, nranks, rank, index);
    case TUTTI_AVG:
      return is_float(dtype) ? float_mean_value(dtype, nranks, rank, index)
                             : sum_value(dtype, nranks, rank, index);
    case TUTTI_PROD:
      return product_value(dtype, nranks, rank, index);
    case TUTTI_MIN:
    case TUTTI_MAX:
      return within(of_both(rank, index), 100, is_unsigned(dtype));
    case TUTTI_LAND:
    case TUTTI_LOR:
    case TUTTI_LXOR:
      return logical_value(op, nranks, rank, index);
    default:
      return bitwise_value(op, rank, index);
  }
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
    const int64_t result = folded_value(dtype_, op_, nranks_, ranks, i);
    unsigned char* out = &pattern[i * element_];
    if (op_ != TUTTI_AVG)
      store_element(dtype_, result, out);
    else if (is_float(dtype_))
      store_real(dtype_, double(result) / ranks, out);
    else
      store_element(dtype_, result / ranks, out);  // towards zero, as C does
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
