#include "bench/sizes.h"

#include <gtest/gtest.h>

#include "bench/error.h"

namespace tutti::bench {
namespace {

using Sizes = std::vector<size_t>;

TEST(Sizes, SuffixesAreBinary) {
  EXPECT_EQ(parse_bytes("4"), 4u);
  EXPECT_EQ(parse_bytes("1K"), 1024u);
  EXPECT_EQ(parse_bytes("3k"), 3072u);
  EXPECT_EQ(parse_bytes("64M"), 67108864u);
  EXPECT_EQ(parse_bytes("2G"), 2147483648u);
}

TEST(Sizes, RangeGrowsByFourAndIncludesItsEnd) {
  EXPECT_EQ(parse_sizes("4:64", 4), (Sizes{4, 16, 64}));
  EXPECT_EQ(parse_sizes("4:100", 4), (Sizes{4, 16, 64, 100}));
  EXPECT_EQ(parse_sizes("8:8", 4), (Sizes{8}));
  EXPECT_EQ(parse_sizes("4:64M", 4).size(), 13u);
  EXPECT_EQ(parse_sizes("4:64M", 4).back(), 64u << 20);
}

TEST(Sizes, ListsMixSizesAndRanges) {
  EXPECT_EQ(parse_sizes("4,1K,4M:16M", 4), (Sizes{4, 1024, 4u << 20, 16u << 20}));
}

TEST(Sizes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "x", "0", "-4", "4X", "4KB", "K", "1.5M", "4:", ":4", "4:16:64",
                           "4,,8", "16:4", "99999999999999999999", "2000G"})
    EXPECT_THROW(parse_sizes(text, 1), BadInput) << text;
}

TEST(Sizes, RefusesPartsOfAnElement) {
  EXPECT_THROW(parse_sizes("4", 8), BadInput);
  EXPECT_THROW(parse_sizes("6", 4), BadInput);
  EXPECT_NO_THROW(parse_sizes("6", 2));
}

TEST(Sizes, ReadWellOnTheScreen) {
  EXPECT_EQ(format_bytes(4), "4 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(64u << 20), "64 MiB");
  EXPECT_EQ(format_thousands(0), "0");
  EXPECT_EQ(format_thousands(999), "999");
  EXPECT_EQ(format_thousands(25557032), "25,557,032");
}

}  // namespace
}  // namespace tutti::bench
