// The notation in which algorithms state their costs.
#include "lib/schedule/formula.h"

#include <gtest/gtest.h>

namespace tutti::schedule {
namespace {

std::string at(const char* formula, uint32_t nranks) {
  Rational value;
  const Status status = evaluate(formula, nranks, &value);
  return status.ok() ? value.text() : status.text();
}

TEST(Formula, KnowsTheNamesOfTheReference) {
  for (uint32_t p = 1; p <= 300; ++p) {
    uint32_t floor = 0, ceil = 0;
    while (2u << floor <= p) ++floor;
    while (1u << ceil < p) ++ceil;
    EXPECT_EQ(at("p", p), std::to_string(p));
    EXPECT_EQ(at("l", p), std::to_string(floor));
    EXPECT_EQ(at("L", p), std::to_string(ceil));
    EXPECT_EQ(at("q", p), std::to_string(1u << floor));
    EXPECT_EQ(at("e", p), std::to_string(p - (1u << floor)));
  }
}

TEST(Formula, MultipliesWhatStandsSideBySide) {
  EXPECT_EQ(at("2(p-1)/p", 8), "7/4");
  EXPECT_EQ(at("2p(p-1)", 5), "40");
  EXPECT_EQ(at("2q*l+2e", 6), "20");
  EXPECT_EQ(at("(q-1)/q+[e>0]", 6), "7/4");
  EXPECT_EQ(at("10-2-3", 1), "5");
}

TEST(Formula, BracketsAreOneWhereTheyHold) {
  EXPECT_EQ(at("[p>1]", 1), "0");
  EXPECT_EQ(at("2[p>1]", 2), "2");
  EXPECT_EQ(at("l+2[e>0]", 4), "2");
  EXPECT_EQ(at("l+2[e>0]", 5), "4");
}

TEST(Formula, SaysWhatItExpectedWhere) {
  EXPECT_NE(at("", 2).find("expected a number"), std::string::npos);
  EXPECT_NE(at("2*(p-1", 2).find("character 7: expected \")\""), std::string::npos);
  EXPECT_NE(at("[p]", 2).find("expected \">\""), std::string::npos);
  EXPECT_NE(at("p)", 2).find("expected an operator"), std::string::npos);
  EXPECT_NE(at("1/e", 4).find("not zero"), std::string::npos);
}

TEST(Rational, IsInLowestTermsAndComparesExactly) {
  EXPECT_EQ(Rational(14, 8), Rational(7, 4));
  EXPECT_EQ(Rational(1, -2).text(), "-1/2");
  EXPECT_LT(Rational(1, 3), Rational(1, 2));
  EXPECT_EQ(Rational(1, 3) + Rational(1, 6), Rational(1, 2));
  EXPECT_EQ(Rational(2, 3) / Rational(4, 9), Rational(3, 2));
}

}  // namespace
}  // namespace tutti::schedule
