// What is prepared for calls is shared by those of a size class, but never by two in flight.
#include "lib/comm/call_cache.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

CallKey key_of(uint64_t count, Collective collective = Collective::allreduce) {
  CallKey key;
  key.count = count;
  key.collective = collective;
  key.dtype = TUTTI_FLOAT32;
  return key;
}

CallCache::Entry made_for(uint64_t count, const Capabilities& capabilities = {}) {
  auto made = std::make_shared<CallPlan>();
  made->key = key_of(count);
  made->counts = decided_alike(count, 4, capabilities);
  made->set_size(count, 0);
  return made;
}

TEST(CallCache, OneEntryServesTheCountsOfAClass) {
  CallCache cache;
  EXPECT_EQ(cache.find(key_of(70)), nullptr);
  const CallPlan* const made = cache.add(made_for(70))->get();
  const uint64_t hash = made->signature_hash;
  for (const uint64_t count : {65, 128, 70, 100}) {
    const auto* const found = cache.find(key_of(count));
    ASSERT_NE(found, nullptr) << count;
    EXPECT_EQ(found->get(), made);
    EXPECT_EQ(made->key.count, count);
    EXPECT_EQ(made->signature.count, count);
    EXPECT_EQ(made->signature_hash, signature_hash(made->signature));
    EXPECT_EQ(made->signature_hash == hash, count == 70);
  }
  for (const uint64_t count : {1, 64, 129}) EXPECT_EQ(cache.find(key_of(count)), nullptr) << count;
  EXPECT_EQ(cache.find(key_of(70, Collective::reduce)), nullptr);
}

TEST(CallCache, WhatSomebodyHoldsIsNotMadeReadyForAnotherCount) {
  CallCache cache;
  const CallCache::Entry held = *cache.add(made_for(70));
  EXPECT_EQ(cache.find(key_of(71)), nullptr);
  EXPECT_EQ(cache.find(key_of(70))->get(), held.get());
  cache.add(made_for(71));
  for (uint64_t count = 70; count <= 80; ++count) {
    const CallPlan& found = **cache.find(key_of(count));
    EXPECT_EQ(found.key.count, count);
    EXPECT_TRUE(count == 70 || &found != held.get());
  }
  EXPECT_EQ(held->key.count, 70u);
}

TEST(CallCache, ForgetsNoneOfTheLastAndLetsHoldersKeepTheirs) {
  CallCache cache;
  std::vector<CallCache::Entry> held;
  for (uint64_t count = 65; count <= 128; ++count) held.push_back(*cache.add(made_for(count)));
  for (uint64_t count = 65; count <= 128; ++count) {
    EXPECT_EQ(held[count - 65]->key.count, count);
    EXPECT_EQ(cache.find(key_of(count)) != nullptr, count > 128 - 17) << count;
  }
}

TEST(OneHopShapes, MadeToFitAreThoseThatWereMade) {
  for (const Collective collective :
       {Collective::broadcast, Collective::reduce, Collective::allgather, Collective::gather,
        Collective::scatter, Collective::alltoall, Collective::reduce_scatter, Collective::scan,
        Collective::exscan}) {
    for (const uint32_t nranks : {2, 3, 8}) {
      for (const uint32_t self : {0u, 1u, nranks - 1}) {
        const auto shape_of = [&](uint64_t count) {
          return shared::OneHopShape(collective, 1, count, 12, nranks, self, default_tuning);
        };
        shared::OneHopShape shape = shape_of(1);
        for (const uint64_t count : {5, 4, 0, 1 << 20, 7, 5000, 3000, 1 << 24, 1, 60'000}) {
          shape.resize(count);
          EXPECT_EQ(shape, shape_of(count)) << collective_name(collective) << " of " << count;
          // Varied before or after makes no difference, and is taken back.
          shared::OneHopShape varied = shape_of(count);
          varied.vary(true, true);
          shape.resize(1);
          shape.vary(true, true);
          shape.resize(count);
          EXPECT_EQ(shape, varied) << collective_name(collective) << " of " << count;
          EXPECT_LE(varied.slices, shape_of(count).slices);
          shape.vary(false, false);
          EXPECT_EQ(shape, shape_of(count)) << collective_name(collective) << " of " << count;
        }
      }
    }
  }
}

TEST(SizeClasses, EndAtPowersOfTwoAndWhereProtocolsStop) {
  Capabilities capabilities;
  capabilities.staged_limit_bytes = 200;
  capabilities.one_shot_limit_bytes = 4000;
  capabilities.two_level_limit_bytes = 12;
  const auto alike = [&](uint64_t count, uint64_t least, uint64_t most) {
    const Counts counts = decided_alike(count, 4, capabilities);
    EXPECT_EQ(counts.least, least) << count;
    EXPECT_EQ(counts.most, most) << count;
  };
  for (const uint64_t count : {0, 1}) alike(count, 0, 1);
  alike(2, 2, 2);
  alike(3, 3, 3);
  alike(4, 4, 4);
  for (const uint64_t count : {5, 8}) alike(count, 5, 8);
  for (const uint64_t count : {33, 50}) alike(count, 33, 50);
  for (const uint64_t count : {51, 64}) alike(count, 51, 64);
  for (const uint64_t count : {513, 1000}) alike(count, 513, 1000);
  for (const uint64_t count : {1001, 1024}) alike(count, 1001, 1024);
  alike(uint64_t{1} << 40, (uint64_t{1} << 39) + 1, uint64_t{1} << 40);
}

}  // namespace
}  // namespace tutti
