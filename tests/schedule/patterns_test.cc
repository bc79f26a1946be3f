// Rank arithmetic, exhaustively for small rank counts.
#include "algorithms/patterns.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tutti {
namespace {

TEST(Patterns, LogarithmsAreThoseOfTheDefinition) {
  for (uint32_t p = 1; p <= 5000; ++p) {
    EXPECT_LE(uint64_t{1} << log2_floor(p), p);
    EXPECT_GT(uint64_t{2} << log2_floor(p), p);
    EXPECT_GE(uint64_t{1} << log2_ceil(p), p);
    if (p > 1) {
      EXPECT_LT(uint64_t{1} << (log2_ceil(p) - 1), p);
    }
  }
}

TEST(Patterns, UpAndDownAreInverseRotations) {
  for (uint32_t p = 1; p <= 40; ++p) {
    for (uint32_t distance = 0; distance <= p; ++distance) {
      std::set<uint32_t> targets;
      for (uint32_t rank = 0; rank < p; ++rank) {
        const uint32_t target = up(rank, distance, p);
        EXPECT_EQ(target, (rank + distance) % p);
        EXPECT_EQ(down(target, distance, p), rank);
        targets.insert(target);
      }
      EXPECT_EQ(targets.size(), p) << "a rotation is a permutation";
    }
  }
}

TEST(Patterns, RotationsOfHugeRankCountsDoNotWrapAround) {
  const uint32_t p = 4'000'000'000u;
  EXPECT_EQ(up(p - 1, p - 1, p), p - 2);
  EXPECT_EQ(down(p - 2, p - 1, p), p - 1);
}

TEST(Patterns, PeersOfARankTakeThePositionsInRankOrder) {
  for (uint32_t p = 2; p <= 40; ++p) {
    for (uint32_t rank = 0; rank < p; ++rank) {
      uint32_t next = 0;
      for (uint32_t peer = 0; peer < p; ++peer) {
        if (peer != rank) {
          EXPECT_EQ(peer_position(rank, peer), next++);
        }
      }
      EXPECT_EQ(next, p - 1);
    }
  }
}

TEST(Patterns, FoldLeavesAPowerOfTwoOfSurvivorsInRankOrder) {
  for (uint32_t p = 1; p <= 300; ++p) {
    const Fold fold(p);
    EXPECT_EQ(fold.survivors + fold.extra, p);
    EXPECT_TRUE(std::has_single_bit(fold.survivors));
    EXPECT_GT(2 * fold.survivors, p);
    uint32_t next = 0;
    for (uint32_t rank = 0; rank < p; ++rank) {
      if (fold.sits_out(rank)) {
        EXPECT_TRUE(fold.folded(rank + 1)) << "its right neighbour takes its vector";
        EXPECT_FALSE(fold.sits_out(rank + 1));
        continue;
      }
      EXPECT_EQ(fold.to_survivor(rank), next);
      EXPECT_EQ(fold.to_rank(next), rank);
      ++next;
    }
    EXPECT_EQ(next, fold.survivors);
  }
}

TEST(Patterns, BinomialTreeReachesEveryRankOnceAndFromItsParent) {
  for (uint32_t p = 1; p <= 200; ++p) {
    std::set<uint32_t> reached = {0};
    for (uint32_t v = 0; v < p; ++v) {
      uint32_t size = 1;  // of the subtree, if nobody were missing
      for (uint32_t i = 0; i < binomial_levels(v, p); ++i) {
        const uint32_t child = v + (1u << i);
        EXPECT_EQ(child, v + size) << "subtrees are contiguous, lowest first";
        size *= 2;
        if (child >= p) continue;
        EXPECT_EQ(binomial_parent(child), v);
        EXPECT_TRUE(reached.insert(child).second);
      }
    }
    EXPECT_EQ(reached.size(), p);
  }
}

TEST(Patterns, HalvingGivesPartnersTheTwoHalvesAndEveryRankItsOwnChunk) {
  for (uint32_t q = 1; q <= 64; q *= 2) {
    std::set<uint32_t> owned;
    for (uint32_t v = 0; v < q; ++v) {
      for (uint32_t round = 0; round < log2_floor(q); ++round) {
        const Span whole = halved(v, round, q);
        const Span mine = halved(v, round + 1, q), theirs = halved(v ^ 1u << round, round + 1, q);
        const Span& low = mine.begin < theirs.begin ? mine : theirs;
        const Span& high = mine.begin < theirs.begin ? theirs : mine;
        EXPECT_EQ(low.begin, whole.begin);
        EXPECT_EQ(low.end, high.begin);
        EXPECT_EQ(high.end, whole.end);
        EXPECT_EQ(low.end - low.begin, high.end - high.begin);
        EXPECT_EQ(halved(v ^ 1u << round, round, q), whole) << "partners hold the same range";
      }
      const Span last = halved(v, log2_floor(q), q);
      EXPECT_EQ(last.end, last.begin + 1);
      owned.insert(last.begin);
    }
    EXPECT_EQ(owned.size(), q);
  }
}

std::string written(schedule::Bracketing bracketing, uint32_t n) {
  return bracketed(
      bracketing, n, [](uint32_t k) { return std::to_string(k); },
      [](const std::string& left, const std::string& right) { return "(" + left + right + ")"; });
}

TEST(Patterns, TheCanonicalTreeIsPairsOfTheExtraThenAlignedAndBinary) {
  const auto canonical = schedule::Bracketing::canonical;
  EXPECT_EQ(written(canonical, 1), "0");
  EXPECT_EQ(written(canonical, 3), "((01)2)");
  EXPECT_EQ(written(canonical, 4), "((01)(23))");
  EXPECT_EQ(written(canonical, 5), "(((01)2)(34))");
  EXPECT_EQ(written(canonical, 6), "(((01)(23))(45))");
  EXPECT_EQ(written(canonical, 7), "(((01)(23))((45)6))");
  EXPECT_EQ(written(canonical, 9), "((((01)2)(34))((56)(78)))");
  EXPECT_EQ(written(schedule::Bracketing::left, 4), "(((01)2)3)");
}

}  // namespace
}  // namespace tutti
