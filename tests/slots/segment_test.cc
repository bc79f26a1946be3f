// How large the memory is that the ranks of a host share.
#include "lib/slots/segment.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tutti::slots
