// Rank arithmetic of the algorithms: pure functions, no communication in sight.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "lib/schedule/schedule.h"

namespace tutti {

// floor(log2 p), p >= 1.
constexpr uint32_t log2_floor(uint32_t p) { return uint32_t(std::bit_width(p)) - 1; }
// ceil(log2 p), p >= 1.
constexpr uint32_t log2_ceil(uint32_t p) { return uint32_t(std::bit_width(p - 1)); }

// The rank `distance` (at most nranks) behind or before `rank` on the ring 0, 1, ..., nranks-1, 0.
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
  // Who of `group` tells the ranks at `place` of other groups that group's result.
  constexpr uint32_t partner(uint32_t group, uint32_t place) const {
    return rank_at(group, place % size(group));
  }

  uint32_t nranks;
  uint32_t group_size;
  uint32_t groups;
};

// Folding p ranks onto the largest power of two q <= p: of the first 2(p-q) ranks, each even one
// hands its vector to its right neighbour and sits out. Neighbours, so that every partial result
// covers contiguous ranks and order is kept.
struct Fold {
  explicit constexpr Fold(uint32_t nranks)
      : survivors(std::bit_floor(nranks)), extra(nranks - survivors) {}

  constexpr bool folded(uint32_t rank) const { return rank < 2 * extra; }
  constexpr bool sits_out(uint32_t rank) const { return folded(rank) && rank % 2 == 0; }
  // Numbers the ranks that do not sit out 0..survivors-1, in rank order; and back.
  constexpr uint32_t to_survivor(uint32_t rank) const {
    return folded(rank) ? rank / 2 : rank - extra;
  }
  constexpr uint32_t to_rank(uint32_t survivor) const {
    return survivor < extra ? 2 * survivor + 1 : survivor + extra;
  }

  uint32_t survivors;
  uint32_t extra;
};

// The value of n >= 1 operands by the tree of level canonical: of those before 2e, e = n - q, each
// even one is combined with its right neighbour, and the q that are left, the largest power of two
// <= n, by an aligned binary tree. leaf(k) is the value of operand k, node(left, right) that of
// two.
template <class Leaf, class Node>
constexpr auto canonical_tree(uint32_t n, const Leaf& leaf, const Node& node) {
  const Fold fold(n);
  const auto subtree = [&](const auto& self, uint32_t first, uint32_t size) -> decltype(leaf(0)) {
    if (size > 1) {
      const auto left = self(self, first, size / 2);
      return node(left, self(self, first + size / 2, size / 2));
    }
    const uint32_t last = fold.to_rank(first);
    return fold.folded(last) ? node(leaf(last - 1), leaf(last)) : leaf(last);
  };
  return subtree(subtree, 0, fold.survivors);
}

// The same from left to right.
template <class Leaf, class Node>
constexpr auto left_fold(uint32_t n, const Leaf& leaf, const Node& node) {
  auto total = leaf(0);
  for (uint32_t k = 1; k < n; ++k) total = node(total, leaf(k));
  return total;
}

template <class Leaf, class Node>
constexpr auto bracketed(schedule::Bracketing bracketing, uint32_t n, const Leaf& leaf,
                         const Node& node) {
  return bracketing == schedule::Bracketing::canonical ? canonical_tree(n, leaf, node)
                                                       : left_fold(n, leaf, node);
}

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
