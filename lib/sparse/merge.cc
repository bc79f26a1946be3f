#include "lib/sparse/merge.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace tutti::sparse {

namespace {

// Indices are merged in batches, so that everything but input and result stays in the cache.
constexpr size_t batch = 512;

class Merger {
 public:
  Merger(std::span<const Entries> lists, const Kernels& kernels, size_t value_size)
      : lists_(lists),
        kernels_(kernels),
        value_size_(value_size),
        heads_(lists.size(), ended),
        at_(lists.size(), 0),
        sources_(lists.size() * batch),
        begin_(lists.size() + 2),
        rows_(lists.size() * batch * value_size) {
    for (size_t r = 0; r < lists.size(); ++r) {
      if (lists[r].count != 0) heads_[r] = lists[r].indices[0];
      operands_.push_back(rows_.data() + r * batch * value_size);
    }
  }

  // The next indices in ascending order, and where their operands are; how many, 0 at the end.
  size_t find(uint32_t* indices) {
    size_t found = 0;
    const std::byte** source = sources_.data();
    for (; found < batch; ++found) {
      first_[found] = source;
      // A pass over all heads takes one step per rank, but with more ranks each owner has less to
      // merge. A heap takes fewer steps, but unpredictable ones.
      uint64_t least = ended;
      for (const uint64_t head : heads_) least = std::min(least, head);
      if (least == ended) break;
      indices[found] = uint32_t(least);
      for (size_t r = 0; r < heads_.size(); ++r) {
        if (heads_[r] != least) continue;
        *source++ = lists_[r].values + at_[r] * value_size_;
        heads_[r] = ++at_[r] < lists_[r].count ? lists_[r].indices[at_[r]] : ended;
      }
    }
    first_[found] = source;
    return found;
  }

  // Combines the values of what find() has found. Indices with equally many operands are combined
  // together, because a kernel takes the same number of operands for all its elements.
  void reduce(size_t count, std::byte* values) {
    std::fill(begin_.begin(), begin_.end(), 0);
    for (size_t i = 0; i < count; ++i) ++begin_[operands_of(i) + 1];
    for (size_t n = 1; n < begin_.size(); ++n) begin_[n] += begin_[n - 1];
    for (size_t i = 0; i < count; ++i) order_[begin_[operands_of(i)]++] = i;
    for (size_t begin = 0; begin < count;) {
      const size_t n = operands_of(order_[begin]), end = begin_[n];
      reduce(n, std::span(order_).subspan(begin, end - begin), values);
      begin = end;
    }
  }

 private:
  // Beyond all indices: a list at its end.
  static constexpr uint64_t ended = std::numeric_limits<uint64_t>::max();

  size_t operands_of(size_t i) const { return size_t(first_[i + 1] - first_[i]); }

  // Of `n` operands each. They are gathered in rows; the result replaces the first row.
  void reduce(size_t n, std::span<const size_t> which, std::byte* values) {
    for (size_t j = 0; j < which.size(); ++j) {
      for (size_t k = 0; k < n; ++k) {
        copy_value(rows_.data() + (k * batch + j) * value_size_, first_[which[j]][k], value_size_);
      }
    }
    kernels_.reduce(rows_.data(), operands_.data(), n, which.size());
    for (size_t j = 0; j < which.size(); ++j) {
      copy_value(values + which[j] * value_size_, rows_.data() + j * value_size_, value_size_);
    }
  }

  std::span<const Entries> lists_;
  const Kernels& kernels_;
  const size_t value_size_;
  std::vector<uint64_t> heads_, at_;                // of the lists
  std::vector<const std::byte*> sources_;           // the operands of a batch, by index and rank
  std::array<const std::byte**, batch + 1> first_;  // where those of each index begin
  std::vector<size_t> begin_;                       // in order_, by number of operands
  std::array<size_t, batch> order_;
  std::vector<std::byte> rows_;
  std::vector<const void*> operands_;
};

}  // namespace

uint64_t merge(std::span<const Entries> lists, const Kernels& kernels, size_t value_size,
               uint32_t* indices, std::byte* values) {
  Merger merger(lists, kernels, value_size);
  uint64_t count = 0;
  while (const size_t found = merger.find(indices + count)) {
    merger.reduce(found, values + count * value_size);
    count += found;
  }
  return count;
}

}  // namespace tutti::sparse
