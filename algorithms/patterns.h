// Rank arithmetic of the algorithms: pure functions, no communication in sight.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "lib/schedule/bracketing.h"

namespace tutti {

// floor(log2 p), p >= 1.
constexpr uint32_t log2_floor(uint32_t p) { return uint32_t(std::bit_width(p)) - 1; }
// ceil(log2 p), p >= 1.
constexpr uint32_t log2_ceil(uint32_t p) { return uint32_t(std::bit_width(p - 1)); }

// The rank `distance` (at most nranks) after (up) or before (down) `rank` on the ring 0, 1, ...,
// nranks-1, 0.
constexpr uint32_t up(uint32_t rank, uint32_t distance, uint32_t nranks) {
  const uint64_t sum = uint64_t(rank) + distance;
  return uint32_t(sum < nranks ? sum : sum - nranks);
}
constexpr uint32_t down(uint32_t rank, uint32_t distance, uint32_t nranks) {
  return rank >= distance ? rank - distance : rank + (nranks - distance);
}

// Where the contribution of `peer` stands among the nranks-1 that `rank` gets from others.
constexpr uint32_t peer_position(uint32_t rank, uint32_t peer) {
  return peer < rank ? peer : peer - 1;
}

// Ranks in consecutive groups of `size`, the last one perhaps shorter.
struct TwoLevels {
  constexpr TwoLevels(uint32_t nranks, uint32_t size)
      : nranks(nranks),
        group_size(std::clamp(size, uint32_t{1}, nranks)),
        groups((nranks + group_size - 1) / group_size) {}

  constexpr uint32_t group_of(uint32_t rank) const { return rank / group_size; }
  constexpr uint32_t place_of(uint32_t rank) const { return rank % group_size; }
  constexpr uint32_t rank_at(uint32_t group, uint32_t place) const {
    return group * group_size + place;
  }
  constexpr uint32_t size(uint32_t group) const {
    return group + 1 < groups ? group_size : nranks - group * group_size;
  }
  // The rank of `group` that gives its group's result to the ranks at `place` of other groups.
  constexpr uint32_t partner(uint32_t group, uint32_t place) const {
    return rank_at(group, place % size(group));
  }

  uint32_t nranks;
  uint32_t group_size;
  uint32_t groups;
};

// The binomial tree with root 0: the parent of v clears its lowest bit; the children of v are
// v + 2^i for every i below that bit, as far as there are such ranks.
constexpr uint32_t binomial_levels(uint32_t v, uint32_t nranks) {  // the children's i are below it
  return v == 0 ? log2_ceil(nranks) : uint32_t(std::countr_zero(v));
}
constexpr uint32_t binomial_parent(uint32_t v) { return v & (v - 1); }

// Vector halving among q = 2^levels ranks, the top half first: the chunks of q that `rank` still
// holds after `rounds` rounds, where round i splits by bit i of the rank.
struct Span {
  uint32_t begin;
  uint32_t end;
  constexpr bool operator==(const Span&) const = default;
};
constexpr Span halved(uint32_t rank, uint32_t rounds, uint32_t q) {
  Span span{0, q};
  for (uint32_t i = 0; i < rounds; ++i) {
    const uint32_t middle = span.begin + (span.end - span.begin) / 2;
    if (rank >> i & 1) {
      span.begin = middle;
    } else {
      span.end = middle;
    }
  }
  return span;
}

}  // namespace tutti
