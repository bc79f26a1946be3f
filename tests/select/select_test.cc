// What is chosen from where ranks live; the fields are set by hand, as other hosts would.
#include "lib/select/select.h"

#include <gtest/gtest.h>

#include <vector>

#include "lib/control/host.h"

namespace tutti {
namespace {

uint32_t group_of_caches(const std::vector<int>& caches) {
  std::vector<HostRecord> records(caches.size());
  for (size_t rank = 0; rank < caches.size(); ++rank) records[rank].cache = caches[rank];
  return cache_group(records);
}

TEST(CacheGroup, IsThatOfConsecutiveRanks) {
  EXPECT_EQ(group_of_caches({0, 0, 0, 0}), 4u);
  EXPECT_EQ(group_of_caches({0, 0, 8, 8}), 2u);
  EXPECT_EQ(group_of_caches({0, 0, 0, 8, 8, 8, 16}), 3u) << "the last one may be shorter";
  EXPECT_EQ(group_of_caches({0, 8, 16}), 1u);
  EXPECT_EQ(group_of_caches({0, 0, 8}), 2u);
}

TEST(CacheGroup, IsAllRanksWhereTheyDoNotFallIntoGroups) {
  EXPECT_EQ(group_of_caches({-1, -1}), 2u) << "nobody knows";
  EXPECT_EQ(group_of_caches({0, 0, -1, -1}), 4u);
  EXPECT_EQ(group_of_caches({0, 8, 8, 8}), 4u);
  EXPECT_EQ(group_of_caches({0, 0, 8, 8, 8}), 5u);
  EXPECT_EQ(group_of_caches({0, 8, 8, 0}), 4u);
  EXPECT_EQ(group_of_caches({0, 0, 8, 0}), 4u);
}

std::string chosen(uint32_t nranks, uint32_t cache_group, uint64_t count) {
  Capabilities capabilities;
  capabilities.nranks = nranks;
  capabilities.all_share_memory = true;
  capabilities.one_shot_limit_bytes = 64 << 10;
  capabilities.two_level_limit_bytes = 4 << 10;
  capabilities.cache_group = cache_group;
  Query query;
  query.nranks = nranks;
  query.count = count;
  query.element_size = 4;
  Choice choice;
  EXPECT_TRUE(choose(Collective::allreduce, capabilities, query, {}, false, &choice).ok());
  return choice.algorithm->name;
}

TEST(Choice, TakesTwoLevelsAboveACacheForShortVectorsOnly) {
  EXPECT_EQ(chosen(16, 16, 2), "all-to-all");
  EXPECT_EQ(chosen(16, 8, 2), "two-level");
  EXPECT_EQ(chosen(16, 8, 128), "two-level");
  EXPECT_EQ(chosen(16, 8, 1 << 20), "two-shot");
  EXPECT_NE(chosen(16, 1, 2), "two-level") << "a cache each: no group to fold in";
}

std::string chosen_of_sockets(Collective collective, double ranks_per_core, uint64_t bytes) {
  Capabilities capabilities;
  capabilities.nranks = 8;
  capabilities.ranks_per_core = ranks_per_core;
  Choice choice;
  EXPECT_TRUE(
      choose(collective, capabilities, plain_query(collective, 8, bytes / 4, 4), {}, false, &choice)
          .ok());
  return choice.algorithm->name;
}

// There the work of all ranks counts, not how many of them do it at once.
TEST(Choice, TakesFewMessagesAndBytesWhereRanksShareCores) {
  EXPECT_EQ(chosen_of_sockets(Collective::allreduce, 1, 1 << 10), "butterfly") << "24 messages";
  EXPECT_EQ(chosen_of_sockets(Collective::allreduce, 4, 1 << 10), "tree") << "14 messages";
  EXPECT_EQ(chosen_of_sockets(Collective::reduce, 1, 8 << 20), "two-shot");
  EXPECT_EQ(chosen_of_sockets(Collective::reduce, 4, 8 << 20), "binomial");
}

TEST(RanksPerCore, CountsTheCoresThatTheRanksOfAHostHaveTogether) {
  std::vector<HostRecord> records(5);
  for (size_t rank = 0; rank < records.size(); ++rank) {
    records[rank].boot_id[0] = rank < 3 ? 'a' : 'b';
    CPU_ZERO(&records[rank].cores);
    CPU_SET(rank % 2, &records[rank].cores);
  }
  EXPECT_EQ(ranks_per_core(records, 0), 1.5);
  EXPECT_EQ(ranks_per_core(records, 4), 1);
}

}  // namespace
}  // namespace tutti
