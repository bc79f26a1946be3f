// The chunk-to-element map.
#include "lib/schedule/chunks.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace tutti::schedule {
namespace {

void expect_balanced(uint64_t count, uint32_t chunks, uint64_t unit) {
  const ChunkMap map(count, chunks, unit);
  ASSERT_EQ(map.begin(0), 0u);
  ASSERT_EQ(map.begin(chunks), count);
  uint64_t least = count, most = 0;
  for (uint32_t c = 0; c < chunks; ++c) {
    ASSERT_LE(map.begin(c), map.begin(c + 1));
    ASSERT_TRUE(map.begin(c) % unit == 0 || map.begin(c) == count);
    least = std::min(least, map.size(c));
    most = std::max(most, map.size(c));
  }
  ASSERT_LE(most - least, unit) << count << " over " << chunks << " in units of " << unit;
}

TEST(ChunkMap, CoversSmallVectorsInOrderAndInBalance) {
  for (uint64_t count = 0; count <= 70; ++count) {
    for (uint32_t chunks = 1; chunks <= 20; ++chunks) {
      for (const uint64_t unit : {1, 2, 3, 8, 16, 64}) expect_balanced(count, chunks, unit);
    }
  }
}

RC_GTEST_PROP(ChunkMap, CoversAnyVectorInOrderAndInBalance, ()) {
  const auto count = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 40);
  const auto chunks = *rc::gen::inRange<uint32_t>(1, 300);
  const auto unit = *rc::gen::element<uint64_t>(1, 2, 4, 8, 16, 32, 64);
  expect_balanced(count, chunks, unit);
}

TEST(ChunkMap, HoldsCountsUpToTwoToThe63) {
  for (const uint64_t count : {uint64_t{1} << 63, (uint64_t{1} << 63) - 1}) {
    for (const uint32_t chunks : {1u, 7u, 64u, 1000u, 65535u}) expect_balanced(count, chunks, 64);
  }
}

TEST(ChunkMap, WithFewerElementsThanChunksLeavesSomeEmpty) {
  const ChunkMap map(3, 8, 1);
  uint32_t empty = 0;
  for (uint32_t c = 0; c < 8; ++c) empty += map.size(c) == 0;
  EXPECT_EQ(empty, 5u);
}

}  // namespace
}  // namespace tutti::schedule
