// The rows of the ways to agree: what all others ask of them is there.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "trainer/sync/ways.h"

namespace tutti::train {
namespace {

TEST(SyncWays, HaveANameOfTheirOwnLinesOfADryRunAndAMaker) {
  std::set<std::string> names;
  for (const SyncWay& way : sync_ways()) {
    EXPECT_TRUE(names.insert(way.name).second) << way.name;
    EXPECT_EQ(find_sync_way(way.name), &way);
    EXPECT_TRUE(way.plan && way.make) << way.name;
    // Servers know no GPU.
    EXPECT_TRUE(!way.server || way.messages) << way.name;
  }
  EXPECT_EQ(find_sync_way("no such way"), nullptr);
  EXPECT_NE(find_sync_way(Options().sync), nullptr);
}

TEST(SyncWays, ThatShareAnOptionSayTheSameOfIt) {
  std::map<std::string, const WayOption*> known;
  for (const SyncWay& way : sync_ways())
    for (const WayOption& option : way.options) {
      const auto [at, first] = known.emplace(option.name, &option);
      EXPECT_EQ(option.name, "--" + std::string(option.name).substr(2));
      EXPECT_STREQ(option.about, at->second->about) << option.name;
      EXPECT_EQ(option.value, at->second->value) << option.name;
    }
}

}  // namespace
}  // namespace tutti::train
