// The grid of ranks: pure arithmetic for every small shape and order, and its communicators over
// threads.
#include "trainer/parallel/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

std::vector<std::string> orders() {
  std::vector<std::string> names = {"dp", "pp", "tp"}, all;
  do all.push_back(names[0] + "," + names[1] + "," + names[2]);
  while (std::next_permutation(names.begin(), names.end()));
  return all;
}

template <class Body>
void for_every_mesh(Body&& body) {
  for (const std::string& order : orders())
    for (int dp = 1; dp <= 4; ++dp)
      for (int pp = 1; pp <= 3; ++pp)
        for (int tp = 1; tp <= 4; ++tp) body(Mesh(dp, pp, tp, order));
}

TEST(Mesh, SizesMultiplyToTheWorldAndCoordinatesNameARank) {
  for_every_mesh([](const Mesh& mesh) {
    ASSERT_EQ(mesh.ranks(),
              mesh.size(Axis::data) * mesh.size(Axis::pipeline) * mesh.size(Axis::tensor));
    std::set<std::vector<int>> seen;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const std::vector<int> at = {mesh.at(rank, Axis::data), mesh.at(rank, Axis::pipeline),
                                   mesh.at(rank, Axis::tensor)};
      ASSERT_TRUE(seen.insert(at).second);
      ASSERT_EQ(mesh.rank(at[0], at[1], at[2]), rank);
    }
  });
}

TEST(Mesh, GroupsOfAnAxisPartitionTheRanksAndTwoRanksShareAtMostOne) {
  for_every_mesh([](const Mesh& mesh) {
    for (int a = 0; a < mesh.ranks(); ++a) {
      std::vector<int> shared(size_t(mesh.ranks()));  // axes on which both are in one group
      for (const Axis axis : axes) {
        const std::vector<int> group = mesh.group(a, {axis});
        ASSERT_EQ(int(group.size()), mesh.size(axis));
        for (int i = 0; i < int(group.size()); ++i) {
          const int b = group[size_t(i)];
          ASSERT_EQ(mesh.at(b, axis), i);
          ASSERT_EQ(mesh.group(b, {axis}), group);
          ++shared[size_t(b)];
        }
      }
      for (int b = 0; b < mesh.ranks(); ++b)
        ASSERT_TRUE(a == b ? shared[size_t(b)] == 3 : shared[size_t(b)] <= 1);
      const std::vector<int> model = mesh.group(a, {Axis::pipeline, Axis::tensor});
      ASSERT_EQ(int(model.size()) * mesh.size(Axis::data), mesh.ranks());
    }
  });
}

TEST(Mesh, TheLastAxisOfTheOrderHasConsecutiveRanks) {
  const Mesh usual(2, 3, 4, "dp,pp,tp");
  EXPECT_EQ(usual.group(5, {Axis::tensor}), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(usual.group(5, {Axis::pipeline}), (std::vector<int>{1, 5, 9}));
  EXPECT_EQ(usual.group(5, {Axis::data}), (std::vector<int>{5, 17}));
  const Mesh other(2, 3, 4, "tp,pp,dp");
  EXPECT_EQ(other.group(5, {Axis::data}), (std::vector<int>{4, 5}));
  EXPECT_EQ(other.group(5, {Axis::tensor}), (std::vector<int>{5, 11, 17, 23}));
}

TEST(StageWidths, ReplicasShardsFollowEachOther) {
  for (const std::vector<int>& numbers : {std::vector{1, 2, 1}, {1, 1}, {4, 1, 2}, {8, 4, 1, 2}}) {
    const StageWidths widths(numbers);
    for (int m = widths.widest(); m <= 32; m *= 2)
      for (int s = 0; s < widths.stages(); ++s) {
        std::vector<std::vector<int>> shards(size_t(widths.width(s)));  // by part
        for (int i = 0; i < m; ++i) {
          const int rank = widths.rank(s, i);
          EXPECT_EQ(widths.stage(rank), s);
          EXPECT_EQ(widths.replica(rank), i % widths.width(s));
          shards[size_t(widths.part(rank))].push_back(widths.shard(i, m));
        }
        int next = 0;
        for (std::vector<int>& part : shards) {
          std::sort(part.begin(), part.end());
          for (const int shard : part) EXPECT_EQ(shard, next++);
        }
        EXPECT_EQ(next, m);
      }
  }
  const StageWidths widths({4, 1, 2});
  EXPECT_EQ(widths.ranks(), 7);
  EXPECT_EQ(widths.name(3) + " " + widths.name(4) + " " + widths.name(5), "0.3 1 2.0");
}

TEST(StageWidths, RefusesWhatIsNoListOfPowersOfTwo) {
  EXPECT_EQ(StageWidths::parsed("", 3).ranks(), 3);
  EXPECT_EQ(StageWidths::parsed("1,16,2", 3).ranks(), 19);
  for (const char* text :
       {"1,3,1", "1,0,1", "1,2", "1,2,1,1", "1,,1", "1,x,1", "1,-2,1", "1,2048,1"})
    EXPECT_THROW(StageWidths::parsed(text, 3), BadInput) << text;
}

TEST(Mesh, HoldersOfAStageComeInTheOrderOfTheirShards) {
  const StageWidths widths({1, 4, 2});
  for (const std::string& order : orders()) {
    const Mesh mesh(2, widths, 2, order);
    EXPECT_EQ(mesh.ranks(), 2 * 7 * 2);
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const std::vector<int> holders = mesh.holders(rank);
      ASSERT_EQ(int(holders.size()), 2 * widths.width(mesh.stage(rank)));
      EXPECT_EQ(std::count(holders.begin(), holders.end(), rank), 1);
      int next = 0;  // the part of the shards of both copies
      for (const int other : holders) {
        EXPECT_EQ(mesh.stage(other), mesh.stage(rank));
        EXPECT_EQ(mesh.at(other, Axis::tensor), mesh.at(rank, Axis::tensor));
        const int part = widths.part(mesh.at(other, Axis::pipeline));
        EXPECT_EQ(mesh.copy(other) * widths.width(mesh.stage(rank)) + part, next++);
      }
    }
  }
}

TEST(Mesh, RefusesAnOrderThatDoesNotNameEachAxisOnce) {
  for (const char* order :
       {"", "dp", "dp,pp", "dp,pp,pp", "dp,pp,tp,tp", "dp,pp,xp", "dp;pp;tp", ",dp,pp,tp"})
    EXPECT_THROW(Mesh(2, 2, 2, order), BadInput) << order;
}

TEST(Grid, RanksInTheCommunicatorsAreTheCoordinates) {
  for (const char* order : {"dp,pp,tp", "tp,dp,pp"}) {
    const Mesh mesh(2, 2, 2, order);
    const tutti_unique_id id = make_unique_id();
    std::vector<std::thread> threads;
    threads.reserve(size_t(mesh.ranks()));
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      threads.emplace_back([&, rank] {
        communicator world = communicator::from_id(id, rank, mesh.ranks());
        const Grid grid(mesh, std::move(world));
        for (const auto& [axis, comm] : {std::pair{Axis::data, &grid.data},
                                         {Axis::pipeline, &grid.pipeline},
                                         {Axis::tensor, &grid.tensor}}) {
          EXPECT_EQ(comm->size(), mesh.size(axis));
          EXPECT_EQ(comm->rank(), mesh.at(rank, axis));
        }
        EXPECT_EQ(grid.model.size(), 4);
        int32_t members[] = {1 << rank};
        grid.model.allreduce<int32_t>(members);
        int32_t expected = 0;
        for (const int member : mesh.group(rank, {Axis::pipeline, Axis::tensor}))
          expected |= 1 << member;
        EXPECT_EQ(members[0], expected);
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tutti::train
