#include "lib/reduce/binned.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/reduce/long_sum.h"

namespace tutti::reduce {

namespace {

constexpr int kCountBits = 48;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr int kIndexShift = 56;

// Which special values were added.
constexpr uint64_t kOtherThanMinusZero = uint64_t{1} << kCountBits;
constexpr uint64_t kNan = uint64_t{2} << kCountBits;
constexpr uint64_t kPlusInfinity = uint64_t{4} << kCountBits;
constexpr uint64_t kMinusInfinity = uint64_t{8} << kCountBits;
constexpr uint64_t kSpecials = uint64_t{15} << kCountBits;

constexpr int index_of(uint64_t head) { return int(head >> kIndexShift); }

// Moves the bins down so that `index` is the uppermost; what falls off the end is dropped.
template <class Sum>
void raise(Sum& sum, int index) {
  const int by = index - index_of(sum.head);
  if (by <= 0) return;
  for (int k = Sum::kBins - 1; k >= 0; --k) sum.bins[k] = k >= by ? sum.bins[k - by] : 0;
}

// A saturating sum, which is associative too.
template <class Sum>
uint64_t counted(uint64_t a, uint64_t b) {
  return std::min((a & kCountMask) + (b & kCountMask), Sum::kMostValues + 1);
}

uint64_t head_of(int index, uint64_t specials, uint64_t count) {
  return uint64_t(index) << kIndexShift | specials | count;
}

// Adds the digits of +-mantissa * 2^position units to the bins; `top`: the index of the uppermost
// one; `index`: that of the value's uppermost one, at most `top`.
template <class Sum>
void add_digits(Sum& sum, int top, int index, bool negative, uint64_t mantissa, int position) {
  constexpr int width = Sum::kWidth;
  int bin = position / width;
  int shift = position % width;
  for (; bin < index; ++bin) {
    const bool uppermost = bin + 1 == index;
    const int cut = width - shift;
    const uint64_t part = uppermost ? mantissa : mantissa & ((uint64_t{1} << cut) - 1);
    auto digit = int64_t(part << shift);
    mantissa >>= cut;
    shift = 0;
    if (!uppermost && digit >= int64_t{1} << (width - 1)) {
      digit -= int64_t{1} << width;
      ++mantissa;
    }
    const int place = top - 1 - bin;
    if (place < Sum::kBins) sum.bins[place] += uint64_t(negative ? -digit : digit);
  }
}

template <class Sum>
void add(Sum& sum, uint64_t specials, bool negative, uint64_t mantissa, int position) {
  const int uppermost_bit = position + 63 - std::countl_zero(mantissa);
  const int index = mantissa == 0 ? 0 : uppermost_bit / Sum::kWidth + 1;
  raise(sum, index);
  const int top = std::max(index, index_of(sum.head));
  sum.head = head_of(top, (sum.head & kSpecials) | specials, counted<Sum>(sum.head, 1));
  if (mantissa != 0) add_digits(sum, top, index, negative, mantissa, position);
}

// Adds a value, decoded by the fields of its format.
template <class Sum>
void add_pattern(Sum& sum, const FloatFormat& format, uint64_t pattern) {
  const uint64_t sign = uint64_t{1} << (format.bits - 1);
  const bool negative = (pattern & sign) != 0;
  const uint64_t magnitude = pattern & (sign - 1);
  if (magnitude > format.greatest) {
    const bool infinite = magnitude == format.infinity && format.infinity != format.nan;
    const uint64_t kind = !infinite ? kNan : negative ? kMinusInfinity : kPlusInfinity;
    return add(sum, kind | kOtherThanMinusZero, false, 0, 0);
  }
  const auto field = int(magnitude >> format.mantissa_bits);
  const uint64_t implicit = uint64_t{1} << format.mantissa_bits;
  const uint64_t mantissa = (magnitude & (implicit - 1)) | (field == 0 ? 0 : implicit);
  const int least = format.least_exponent - format.mantissa_bits - Sum::kLeastExponent;
  add(sum, pattern == sign ? 0 : kOtherThanMinusZero, negative, mantissa,
      least + std::max(field - 1, 0));
}

template <class Sum>
void merge(Sum& sum, const Sum& other) {
  const Sum added = other;  // a copy: `other` may be `sum`
  const int index = std::max(index_of(sum.head), index_of(added.head));
  raise(sum, index);
  const int by = index - index_of(added.head);
  for (int k = by; k < Sum::kBins; ++k) sum.bins[k] += added.bins[k - by];
  sum.head =
      head_of(index, (sum.head | added.head) & kSpecials, counted<Sum>(sum.head, added.head));
}

template <class Sum>
bool valid(const Sum& sum) {
  const int index = index_of(sum.head);
  const uint64_t count = sum.head & kCountMask;
  if (index > Sum::kMostIndex || count > Sum::kMostValues + 1) return false;
  if ((sum.head & ~(uint64_t{0xFF} << kIndexShift) & ~kSpecials & ~kCountMask) != 0) return false;
  for (int k = index; k < Sum::kBins; ++k) {
    if (sum.bins[k] != 0) return false;  // there are no bins below bin 0
  }
  return count != 0 || (index == 0 && (sum.head & kSpecials) == 0);
}

template <class Sum>
uint64_t round(const Sum& sum, const FloatFormat& format) {
  const uint64_t count = sum.head & kCountMask;
  if ((sum.head & kNan) != 0 || count > Sum::kMostValues || !valid(sum)) return format.nan;
  LongSum exact;
  const double infinity = std::bit_cast<double>(kFloat64.infinity);
  if ((sum.head & kPlusInfinity) != 0) exact.add(infinity);
  if ((sum.head & kMinusInfinity) != 0) exact.add(-infinity);
  if ((sum.head & kOtherThanMinusZero) != 0 || count == 0) exact.add(0.0);
  for (int k = 0; k < std::min(index_of(sum.head), Sum::kBins); ++k) {
    const int bin = index_of(sum.head) - 1 - k;
    exact.add(int64_t(sum.bins[k]), Sum::kLeastExponent + bin * Sum::kWidth);
  }
  return exact.round(format);
}

// The kernels. Elements may have any alignment, and `out` may be an operand.

template <class Sum>
Sum load(const void* from, size_t i) {
  Sum sum;
  std::memcpy(&sum, static_cast<const std::byte*>(from) + i * sizeof(Sum), sizeof(Sum));
  return sum;
}

template <class Sum>
void store(void* to, size_t i, const Sum& sum) {
  std::memcpy(static_cast<std::byte*>(to) + i * sizeof(Sum), &sum, sizeof(Sum));
}

template <class Sum>
void reduce_many(void* out, const void* const* operands, size_t n, size_t elements) {
  if (n == 1) {
    if (out != operands[0] && elements != 0) std::memcpy(out, operands[0], elements * sizeof(Sum));
    return;
  }
  for (size_t i = 0; i < elements; ++i) {
    Sum sum = load<Sum>(operands[0], i);
    for (size_t k = 1; k < n; ++k) merge(sum, load<Sum>(operands[k], i));
    store(out, i, sum);
  }
}

template <class Sum>
void reduce2(void* out, const void* a, const void* b, size_t elements) {
  const void* const operands[] = {a, b};
  reduce_many<Sum>(out, operands, 2, elements);
}

template <class Sum>
void reduce2_twice(void* out, void* other, const void* a, const void* b, size_t elements, Stores) {
  for (size_t i = 0; i < elements; ++i) {
    Sum sum = load<Sum>(a, i);
    merge(sum, load<Sum>(b, i));
    store(out, i, sum);
    store(other, i, sum);
  }
}

template <class Sum>
constexpr Kernels kKernels{.reduce_fn = reduce_many<Sum>,
                           .reduce2_fn = reduce2<Sum>,
                           .reduce2_twice_fn = reduce2_twice<Sum>,
                           .reduce_canonical = reduce_many<Sum>,
                           .reduce_exact = reduce_many<Sum>};

}  // namespace

Kernels binned_kernels(tutti_dtype dtype) {
  if (dtype == TUTTI_BINNED_FLOAT32) return kKernels<BinnedFloat32>;
  if (dtype == TUTTI_BINNED_FLOAT64) return kKernels<BinnedFloat64>;
  return {};
}

void binned_add(BinnedFloat32* sum, const FloatFormat& format, uint64_t pattern) {
  add_pattern(*sum, format, pattern);
}
void binned_add(BinnedFloat64* sum, const FloatFormat& format, uint64_t pattern) {
  add_pattern(*sum, format, pattern);
}

void binned_merge(BinnedFloat32* sum, const BinnedFloat32& other) { merge(*sum, other); }
void binned_merge(BinnedFloat64* sum, const BinnedFloat64& other) { merge(*sum, other); }

uint64_t binned_round(const BinnedFloat32& sum, const FloatFormat& format) {
  return round(sum, format);
}
uint64_t binned_round(const BinnedFloat64& sum, const FloatFormat& format) {
  return round(sum, format);
}

bool binned_valid(const BinnedFloat32& sum) { return valid(sum); }
bool binned_valid(const BinnedFloat64& sum) { return valid(sum); }

}  // namespace tutti::reduce
