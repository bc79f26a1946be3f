// Rank arithmetic and step patterns that several algorithms share. Pure; no communication here.
#pragma once

#include <bit>
#include <cstdint>

#include "lib/schedule/emit.h"

namespace tutti::patterns {

using schedule::Emitter;
using schedule::output;
using schedule::Side;

// Rank `distance` places after (before) `rank` on a ring of `nranks`; distance < nranks.
constexpr uint32_t after(uint32_t rank, uint32_t distance, uint32_t nranks) {
  return (rank + distance) % nranks;
}
constexpr uint32_t before(uint32_t rank, uint32_t distance, uint32_t nranks) {
  return (rank + nranks - distance) % nranks;
}

// On which side of the own operand the one from `peer` stands: the lower rank is always on the left.
constexpr Side side_of(uint32_t peer, uint32_t rank) {
  return peer < rank ? Side::left : Side::right;
}

// How a rank count that is not a power of two is brought to one: of the first 2e ranks (e = p - q,
// q the largest power of two) each even one hands its vector to its right neighbour and waits; the q
// others, the core, are numbered in rank order. Neighbours are adjacent, so order is kept.
class Fold {
 public:
  constexpr Fold(uint32_t rank, uint32_t nranks)
      : rank_(rank), core_size_(std::bit_floor(nranks)), extra_(nranks - core_size_) {}

  constexpr uint32_t core_size() const { return core_size_; }
  constexpr bool paired() const { return rank_ < 2 * extra_; }
  constexpr bool in_core() const { return !paired() || rank_ % 2 == 1; }
  // The other one of the pair; only for paired().
  constexpr uint32_t neighbour() const { return rank_ ^ 1; }
  // The own number in the core; only for in_core().
  constexpr uint32_t core_rank() const { return paired() ? rank_ / 2 : rank_ - extra_; }
  // The rank behind a number in the core.
  constexpr uint32_t rank_of(uint32_t core) const {
    return core < extra_ ? 2 * core + 1 : core + extra_;
  }

 private:
  uint32_t rank_;
  uint32_t core_size_;
  uint32_t extra_;
};

// out = x_0 op x_1 op ... on chunks [begin, end), a left fold in rank order: the own contribution is
// in the output, that of rank r in scratch row r.
inline void fold_in_rank_order(Emitter& out, uint32_t rank, uint32_t nranks, uint32_t begin,
                               uint32_t end) {
  const auto row = [&](uint32_t r) { return out.scratch(r, begin, end); };
  for (uint32_t r = 1; r < rank; ++r) out.reduce(row(0), row(r), Side::right);
  if (rank > 0) out.reduce(output(begin, end), row(0), Side::left);
  for (uint32_t r = rank + 1; r < nranks; ++r) out.reduce(output(begin, end), row(r), Side::right);
}

}  // namespace tutti::patterns
