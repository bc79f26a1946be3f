// How operands are bracketed: folded onto a power of two, by the canonical tree, or from the left.
#pragma once

#include <bit>
#include <cstdint>

#include "lib/schedule/schedule.h"

namespace tutti {

// Folding p ranks onto the largest power of two q <= p: of the first 2(p-q) ranks, each even one
// hands its vector to its right neighbour and sits out. Since these are neighbours, every partial
// result covers contiguous ranks, and order is kept.
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

// The value of n >= 1 operands by the tree of level canonical. With q the largest power of two <= n
// and e = n - q: of the first 2e operands, each even one is combined with its right neighbour; the
// q values that are left are combined by an aligned binary tree. leaf(k) is the value of operand k,
// node(left, right) that of left op right.
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

}  // namespace tutti
