// The one map from chunks to elements: balanced, and cut only at multiples of a unit.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti::schedule {

// `count` elements in `chunks` chunks, cut at multiples of `unit` elements. Sizes differ by at most
// one unit. The longer chunks come last, because the last one also ends with what is left of the
// vector, which need not be a whole unit. Counts up to 2^63.
class ChunkMap {
 public:
  ChunkMap(uint64_t count, uint32_t chunks, uint64_t unit) : count_(count), unit_(unit) {
    const uint64_t units = count / unit + (count % unit != 0);
    base_ = units / chunks;
    shorter_ = chunks - uint32_t(units % chunks);
  }

  // The first element of chunk `c`; begin(chunks) is the count.
  uint64_t begin(uint32_t c) const {
    return std::min(count_, (c * base_ + (c - std::min(c, shorter_))) * unit_);
  }
  uint64_t size(uint32_t c) const { return begin(c + 1) - begin(c); }

 private:
  uint64_t count_;
  uint64_t unit_;
  uint64_t base_;     // units that every chunk has at least
  uint32_t shorter_;  // how many chunks have no more than those
};

}  // namespace tutti::schedule
