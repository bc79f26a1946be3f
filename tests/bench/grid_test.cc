#include "bench/grid.h"

#include <gtest/gtest.h>

namespace tutti::bench {
namespace {

TEST(Grid, ShowsThreeDigitsThatMatter) {
  EXPECT_EQ(format_us(0.0714), "0.071");
  EXPECT_EQ(format_us(5.3), "5.30");
  EXPECT_EQ(format_us(9.996), "10.0");
  EXPECT_EQ(format_us(97.84), "97.8");
  EXPECT_EQ(format_us(99.96), "100");
  EXPECT_EQ(format_us(6970.2), "6,970");
}

TEST(Grid, BreaksHeadsOnlyWhereThatMakesAColumnNarrower) {
  const std::string text = render_grid(
      {{"name", true, {"bcd"}}, {"halving-doubling", false, {"1"}}, {"a b", false, {"1,000"}}}, 80);
  EXPECT_EQ(text,
            "        halving-\n"
            "  name  doubling    a b\n"
            "  bcd          1  1,000\n");
}

TEST(Grid, CountsCharactersNotBytes) {
  EXPECT_EQ(render_grid({{"µs", false, {"1"}}, {"x", false, {"22"}}}, 80),
            "  µs   x\n"
            "   1  22\n");
}

TEST(Grid, WhatDoesNotFitGoesOnBelowWithTheFirstColumn) {
  EXPECT_EQ(render_grid({{"size", false, {"4 B"}},
                         {"one", false, {"1"}},
                         {"two", false, {"2"}},
                         {"three", false, {"3"}}},
                        17),
            "  size  one  two\n"
            "   4 B    1    2\n"
            "\n"
            "  size  three\n"
            "   4 B      3\n");
}

TEST(Grid, WrapsParagraphsAndKeepsTheirIndentation) {
  EXPECT_EQ(wrap("  one two three", 10, 4), "  one two\n    three\n");
  EXPECT_EQ(wrap("", 10, 4), "\n");
}

}  // namespace
}  // namespace tutti::bench
