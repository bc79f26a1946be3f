// How large the memory is that the ranks of a host share.
#include "lib/slots/segment.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::slots {
namespace {

constexpr size_t mebi = 1 << 20;

TEST(Segment, SlotsOfFewRanksAreAsLongAsTuned) {
  for (uint32_t nranks = 1; nranks <= 32; ++nranks) {
    const Geometry geometry = Geometry::for_ranks(nranks, default_tuning);
    EXPECT_EQ(geometry.slice_bytes, default_tuning.slot_bytes);
    EXPECT_EQ(geometry.slots, default_tuning.slots);
  }
}

TEST(Segment, GrowsWithTheNumberOfRanksAndNotWithItsSquare) {
  // Slots, and cells; then the lines of slots and the mail, which are short.
  constexpr size_t a_rank = 4 * mebi + 9 * mebi;
  constexpr size_t a_pair = 16 * line_bytes + 17 * line_bytes;
  for (uint32_t nranks = 1; nranks <= 2048; ++nranks) {
    const Geometry geometry = Geometry::for_ranks(nranks, default_tuning);
    EXPECT_LE(geometry.total_bytes(), a_rank * nranks + a_pair * nranks * nranks) << nranks;
    EXPECT_EQ(geometry.slice_bytes % line_bytes, 0u) << nranks;
    EXPECT_GE(geometry.slice_bytes, 256u) << nranks;
  }
  EXPECT_LT(Geometry::for_ranks(64, default_tuning).total_bytes(), 800 * mebi);
}

TEST(Segment, ShortSlotsStayAsShortAsTuned) {
  Tuning tuning = default_tuning;
  tuning.slot_bytes = 256;
  for (const uint32_t nranks : {2u, 33u, 64u, 1000u}) {
    EXPECT_EQ(Geometry::for_ranks(nranks, tuning).slice_bytes, 256u) << nranks;
  }
}

TEST(Segment, EveryRanksHomeTogetherIsTheWholeSegment) {
  for (const uint32_t nranks : {1u, 3u, 33u, 64u}) {
    const Geometry geometry = Geometry::for_ranks(nranks, default_tuning);
    const Segment segment(nullptr, geometry);
    size_t bytes = nranks * geometry.slots * geometry.slice_bytes;  // from ranks to themselves
    for (uint32_t rank = 0; rank < nranks; ++rank) {
      for (const Segment::Part& part : segment.home_of(rank)) bytes += part.bytes;
    }
    EXPECT_LE(bytes, geometry.total_bytes());
    EXPECT_GT(bytes + 4 * 4096, geometry.total_bytes()) << nranks;  // but what rounds up to pages
  }
}

// A page that nobody has touched ends the process where there is no memory left for it.
TEST(Segment, WhatARankUsesIsInItsReachOrItsHomeAndInSomebodysHome) {
  constexpr uint32_t nranks = 5;
  const Segment segment(nullptr, Geometry::for_ranks(nranks, default_tuning));
  const auto is_in = [](const std::vector<Segment::Part>& parts, const void* data, size_t bytes) {
    const auto* const at = static_cast<const std::byte*>(data);
    return std::any_of(parts.begin(), parts.end(), [&](const Segment::Part& part) {
      return at >= part.at && at + bytes <= part.at + part.bytes;
    });
  };
  const size_t pair = size_t(segment.geometry().slots) * segment.geometry().slice_bytes;
  for (uint32_t r = 0; r < nranks; ++r) {
    const std::vector<Segment::Part> home = segment.home_of(r), reach = segment.in_reach_of(r);
    for (uint32_t other = 0; other < nranks; ++other) {
      EXPECT_TRUE(is_in(reach, segment.cell_data(other), segment.geometry().cell_bytes));
      EXPECT_TRUE(is_in(reach, &segment.rank(other), sizeof(RankLines)));
      if (other == r) continue;
      EXPECT_TRUE(is_in(home, segment.slot_data(r, other), pair)) << r << " to " << other;
      EXPECT_TRUE(is_in(reach, segment.slot_data(other, r), pair)) << other << " to " << r;
      EXPECT_FALSE(is_in(reach, segment.slot_data(other, (r + 1) % nranks), 1))
          << "a pair that has nothing to do with rank " << r;
    }
  }
}

}  // namespace
}  // namespace tutti::slots
