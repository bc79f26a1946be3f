// The drawing: everything that happens is in it, and it is XML.
#include "lib/schedule/draw.h"

#include <gtest/gtest.h>

#include <vector>

#include "algorithms/registry.h"
#include "lib/schedule/prove.h"
#include "tests/schedule/support.h"

namespace tutti::schedule {
namespace {

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++n;
  return n;
}

// Every element that is opened is closed, in order.
bool nests(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at)) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (tag.back() == '/') continue;
    const std::string name = tag.substr(tag[0] == '/', tag.find(' ') - (tag[0] == '/'));
    if (tag[0] != '/') {
      open.push_back(name);
    } else {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(Drawing, HasAnArrowForEveryMessageAndABarForEveryRankAndRound) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const uint32_t nranks : {1u, 2u, 5u, 8u, 20u}) {
      const Verdict verdict = prove(algorithm, nranks);
      const std::string svg = draw_svg(algorithm, nranks);
      EXPECT_TRUE(nests(svg)) << algorithm.name;
      EXPECT_EQ(count(svg, "<path "), verdict.counts.messages) << algorithm.name;
      EXPECT_EQ(count(svg, "rx=\"2\""), size_t(nranks) * (verdict.rounds + 1)) << algorithm.name;
      EXPECT_NE(svg.find(std::string(algorithm.name) + " " + collective_name(algorithm.collective)),
                std::string::npos);
      EXPECT_EQ(svg.find("nan"), std::string::npos) << algorithm.name;
    }
  }
}

TEST(Drawing, OfABroadcastNamesItsRoot) {
  const std::string svg = draw_svg(*find_algorithm(Collective::broadcast, "binomial"), 6, 4);
  EXPECT_NE(svg.find("6 ranks, root 4"), std::string::npos);
}

}  // namespace
}  // namespace tutti::schedule
