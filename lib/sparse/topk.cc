#include "lib/sparse/topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>

#include "lib/base/types.h"

namespace tutti::sparse {

namespace {

template <class Float>
using KeyOf = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;

// A number that orders values by magnitude; all NaNs are equal, above infinity.
template <class Float>
KeyOf<Float> key_of(Float value) {
  using Key = KeyOf<Float>;
  constexpr Key infinity = std::bit_cast<Key>(std::numeric_limits<Float>::infinity());
  return std::min<Key>(std::bit_cast<Key>(value) & (std::numeric_limits<Key>::max() >> 1),
                       infinity + 1);
}

// The k-th largest key, and how many are larger.
template <class Key>
struct Threshold {
  Key key;
  uint64_t larger;
};

// Counts keys by their uppermost bits: all of the exponent and, for float32, some of the mantissa.
// So only the values of one bucket need be ordered.
template <class Key>
class Histogram {
 public:
  void add(Key key) { ++counts_[bucket(key)]; }

  // 1 <= k <= the number of keys added; for_each(f) calls f(key) for all of these again.
  template <class ForEach>
  Threshold<Key> threshold(uint64_t k, ForEach&& for_each) const {
    size_t at = counts_.size() - 1;
    uint64_t larger = 0;
    while (larger + counts_[at] < k) larger += counts_[at--];
    std::vector<Key> keys;
    keys.reserve(counts_[at]);
    for_each([&](Key key) {
      if (bucket(key) == at) keys.push_back(key);
    });
    const auto kth = keys.begin() + ptrdiff_t(k - larger - 1);
    std::nth_element(keys.begin(), kth, keys.end(), std::greater<Key>());
    larger += uint64_t(std::count_if(keys.begin(), kth, [&](Key key) { return key > *kth; }));
    return {*kth, larger};
  }

 private:
  static constexpr int shift = int(sizeof(Key)) * 8 - 12;
  static size_t bucket(Key key) { return size_t(key >> shift); }
  std::array<uint64_t, 2048> counts_{};
};

}  // namespace

TopK::TopK(uint64_t length, uint64_t k, tutti_dtype dtype)
    : length_(length),
      k_(k),
      dtype_(dtype),
      residual_(length * dtype_size(dtype)),
      next_(residual_.size()),
      indices_(k),
      values_(k * dtype_size(dtype)) {}

template <class Float>
void TopK::pick_of(const std::byte* input) {
  using Key = KeyOf<Float>;
  const auto* const before = reinterpret_cast<const Float*>(residual_.data());
  const auto* const in = reinterpret_cast<const Float*>(input);
  auto* const next = reinterpret_cast<Float*>(next_.data());
  auto* const values = reinterpret_cast<Float*>(values_.data());
  for (uint64_t i = 0; i < length_; ++i) next[i] = before[i] + in[i];

  Histogram<Key> histogram;
  uint64_t zeros = 0;
  for (uint64_t i = 0; i < length_; ++i) {
    const Key key = key_of(next[i]);
    histogram.add(key);
    zeros += key == 0;
  }
  const uint64_t count = std::min(k_, length_ - zeros);
  indices_.resize(count);
  if (count == 0) return;
  const Threshold<Key> least = histogram.threshold(count, [&](auto&& take) {
    for (uint64_t i = 0; i < length_; ++i) take(key_of(next[i]));
  });
  uint64_t equal_left = count - least.larger, found = 0;
  for (uint64_t i = 0; i < length_ && found < count; ++i) {
    const Key key = key_of(next[i]);
    if (key < least.key || (key == least.key && equal_left == 0)) continue;
    equal_left -= key == least.key;
    indices_[found] = uint32_t(i);
    values[found++] = next[i];
  }
}

Entries TopK::pick(const std::byte* input) {
  if (dtype_ == TUTTI_FLOAT32) {
    pick_of<float>(input);
  } else {
    pick_of<double>(input);
  }
  return {indices_.data(), values_.data(), indices_.size()};
}

void TopK::commit() {
  const size_t size = dtype_size(dtype_);
  for (const uint32_t index : indices_) std::memset(next_.data() + index * size, 0, size);
  residual_.swap(next_);
}

}  // namespace tutti::sparse
