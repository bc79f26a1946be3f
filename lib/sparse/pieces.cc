#include "lib/sparse/pieces.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace tutti::sparse {

Part part_of(uint64_t length, int r, int n, uint64_t unit) {
  const uint64_t units = length / unit + (length % unit != 0 ? 1 : 0);
  const auto parts = uint64_t(n), part = uint64_t(r);
  const auto begin_of = [&](uint64_t i) {
    return std::min(length, (units / parts * i + std::min(i, units % parts)) * unit);
  };
  return {begin_of(part), begin_of(part + 1)};
}

void PieceShape::pack(const Entries& entries, std::byte* to) const {
  if (count_ == 0) return;
  if (is_bitmap()) {
    uint64_t word = 0, at = 0;
    for (uint64_t i = 0; i < count_; ++i) {
      const uint64_t offset = entries.indices[i] - part_.begin;
      for (; at < offset / 64; ++at, word = 0) std::memcpy(to + at * 8, &word, 8);
      word |= uint64_t{1} << offset % 64;
    }
    for (; at < bitmap_bytes() / 8; ++at, word = 0) std::memcpy(to + at * 8, &word, 8);
  } else {
    std::memcpy(to, entries.indices, count_ * sizeof(uint32_t));
  }
  const uint64_t value_bytes = count_ * value_size_, end = values_at() + value_bytes;
  std::memcpy(to + values_at(), entries.values, value_bytes);
  std::memset(to + end, 0, bytes() - end);
}

Status PieceShape::unpack_indices(const std::byte* from, uint32_t* indices) const {
  if (count_ == 0) return {};
  uint64_t found = 0;
  if (is_bitmap()) {
    for (uint64_t at = 0; at < bitmap_bytes() / 8; ++at) {
      uint64_t word = 0;
      std::memcpy(&word, from + at * 8, 8);
      if (found + uint64_t(std::popcount(word)) > count_) break;
      for (; word != 0; word &= word - 1) {
        indices[found++] = uint32_t(part_.begin + at * 64 + uint64_t(std::countr_zero(word)));
      }
    }
  } else {
    found = count_;
    std::memcpy(indices, from, count_ * sizeof(uint32_t));
  }
  const bool ascending = std::adjacent_find(indices, indices + found,
                                            std::greater_equal<uint32_t>()) == indices + found;
  if (found == count_ && ascending && indices[0] >= part_.begin && indices[count_ - 1] < part_.end)
    return {};
  return {TUTTI_CORRUPT, "the indices of a piece of a sparse vector make no sense"};
}

}  // namespace tutti::sparse
