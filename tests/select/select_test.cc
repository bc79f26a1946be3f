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

Choice choice_of(Collective collective, uint64_t bytes, Capabilities capabilities,
                 tutti_level level = TUTTI_LEVEL_FAST) {
  capabilities.nranks = 8;
  capabilities.cache_group = 8;
  Query query = plain_query(collective, 8, bytes / 4, 4);
  query.level = level;
  Choice choice;
  EXPECT_TRUE(choose(collective, capabilities, query, {}, false, &choice).ok());
  return choice;
}

std::string chosen_of(Collective collective, uint64_t bytes, const Capabilities& capabilities,
                      tutti_level level = TUTTI_LEVEL_FAST) {
  return choice_of(collective, bytes, capabilities, level).algorithm->name;
}

Capabilities sockets(double ranks_per_core, bool across_hosts = false) {
  Capabilities capabilities;
  capabilities.ranks_per_core = ranks_per_core;
  capabilities.across_hosts = across_hosts;
  return capabilities;
}

// There the work of all ranks counts, not how many of them do it at once.
TEST(Choice, TakesFewMessagesAndBytesWhereRanksShareCores) {
  EXPECT_EQ(chosen_of(Collective::allreduce, 1 << 10, sockets(1)), "butterfly") << "24 messages";
  EXPECT_EQ(chosen_of(Collective::allreduce, 1 << 10, sockets(4)), "tree") << "14 messages";
  EXPECT_EQ(chosen_of(Collective::reduce, 8 << 20, sockets(1)), "two-shot");
  EXPECT_EQ(chosen_of(Collective::reduce, 8 << 20, sockets(4)), "binomial");
}

// The model goes over from the one to the other, without a jump.
TEST(Choice, IsNearlyAsAloneWhereOneRankIsTooMany) {
  for (const Collective collective :
       {Collective::allreduce, Collective::alltoall, Collective::broadcast, Collective::scan}) {
    for (const uint64_t bytes : {64u, 64u << 10, 8u << 20}) {
      const Choice alone = choice_of(collective, bytes, sockets(1)),
                   crowded = choice_of(collective, bytes, sockets(1.0001));
      EXPECT_EQ(alone.algorithm, crowded.algorithm);
      EXPECT_NEAR(crowded.predicted_us / alone.predicted_us, 1, 0.01);
    }
  }
}

TEST(Choice, TakesFewRoundsBetweenHostsAlsoWhereRanksShareCores) {
  EXPECT_EQ(chosen_of(Collective::allreduce, 1 << 10, sockets(1.02, true)), "butterfly");
  EXPECT_EQ(chosen_of(Collective::allreduce, 1 << 10, sockets(2, true)), "butterfly");
}

TEST(Choice, IsFusedInMemoryAlsoWhereRanksShareCores) {
  for (const double ranks_per_core : {1.5, 2.0, 4.0}) {
    SCOPED_TRACE(ranks_per_core);
    Capabilities memory = sockets(ranks_per_core);
    memory.all_share_memory = true;
    memory.one_shot_limit_bytes = 64 << 10;
    memory.one_hop_element_limit_bytes = 64;
    EXPECT_EQ(chosen_of(Collective::allreduce, 8, memory), "all-to-all");
    EXPECT_EQ(chosen_of(Collective::allreduce, 1 << 20, memory), "two-shot");
    for (const Collective collective :
         {Collective::allreduce, Collective::broadcast, Collective::allgather, Collective::alltoall,
          Collective::scan, Collective::exscan}) {
      for (const uint64_t bytes : {8u, 8u << 10, 1u << 20})
        EXPECT_TRUE(choice_of(collective, bytes, memory).fused())
            << collective_name(collective) << " " << bytes;
    }
  }
}

// Each rank adds its share, or the root adds everything.
TEST(Choice, CountsWhatAllRanksAddExactly) {
  EXPECT_EQ(chosen_of(Collective::reduce, 8 << 20, sockets(1), TUTTI_LEVEL_EXACT), "two-shot");
  EXPECT_EQ(chosen_of(Collective::reduce, 8 << 20, sockets(4), TUTTI_LEVEL_EXACT), "two-shot");
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
  for (HostRecord& record : records) CPU_ZERO(&record.cores);
  EXPECT_EQ(ranks_per_core(records, 0), 1) << "nobody knows";
}

}  // namespace
}  // namespace tutti
