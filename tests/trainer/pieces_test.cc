// The parts of the trainer that need no other rank and no model.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "trainer/common/random.h"
#include "trainer/data/data.h"
#include "trainer/parallel/fold.h"
#include "trainer/parallel/optimizer.h"
#include "trainer/parallel/worker_shards.h"
#include "trainer/sync/buckets.h"
#include "trainer/sync/volume.h"

namespace tutti::train {
namespace {

std::vector<float> noise(size_t count, uint64_t key) {
  std::vector<float> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i)
    out.push_back(float(fraction(mixed(key, i)) - 0.5) * std::exp2(float(mixed(key, i, 1) % 20)));
  return out;
}

TEST(Fold, GivesTheBitsOfTheCanonicalTree) {
  for (size_t n = 1; n <= 40; ++n) {
    std::vector<std::vector<float>> inputs;
    std::vector<const float*> pointers;
    for (size_t k = 0; k < n; ++k) inputs.push_back(noise(37, 100 * n + k));
    pointers.reserve(n);
    for (const auto& input : inputs) pointers.push_back(input.data());
    std::vector<float> expected(37);
    reduce_local<float>(pointers, expected, TUTTI_SUM, TUTTI_LEVEL_CANONICAL);
    Fold fold(n);
    for (int round = 0; round < 2; ++round) {
      std::vector<float> last;
      for (const auto& input : inputs) fold.add(last = input);
      EXPECT_EQ(last, expected) << n << " vectors, round " << round;
    }
    std::vector<float> last;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t leaf = permuted(i, n, 7);
      fold.add(leaf, last = inputs[leaf]);
    }
    EXPECT_EQ(last, expected) << n << " vectors in another order";
  }
}

// The canonical sum of what workers have summed is that of all shards, however many workers there
// are.
TEST(WorkerShards, AreAllOfThemAndAtLevelCanonicalSubtreesOfTheCanonicalTree) {
  for (int64_t shards = 1; shards <= 40; ++shards) {
    std::vector<std::vector<float>> inputs;
    std::vector<float> expected;
    Fold whole{size_t(shards)};
    for (int64_t i = 0; i < shards; ++i) {
      inputs.push_back(noise(5, uint64_t(100 * shards + i)));
      whole.add(expected = inputs.back());
    }
    for (int64_t workers = 1; workers <= shards; ++workers) {
      int64_t next[] = {0, 0};
      std::vector<float> sum;
      Fold over{size_t(workers)};
      for (int64_t w = 0; w < workers; ++w) {
        const Span even = worker_shards(shards, workers, w, false);
        EXPECT_EQ(std::exchange(next[0], even.end), even.begin);
        EXPECT_LE(std::abs(even.size() - shards / workers), 1);
        const Span own = worker_shards(shards, workers, w, true);
        ASSERT_EQ(std::exchange(next[1], own.end), own.begin) << shards << " " << workers;
        ASSERT_GE(own.size(), 1) << shards << " " << workers;
        Fold fold{size_t(own.size())};
        for (int64_t i = own.begin; i < own.end; ++i) fold.add(sum = inputs[size_t(i)]);
        over.add(sum);
      }
      EXPECT_EQ(next[0], shards);
      EXPECT_EQ(next[1], shards);
      EXPECT_EQ(sum, expected) << shards << " shards, " << workers << " workers";
    }
  }
}

TEST(Permuted, IsAPermutationForEverySizeAndDiffersByKey) {
  for (const uint64_t size : {1, 2, 3, 7, 64, 100, 1000}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(permuted(i, size, 5));
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
  }
  size_t equal = 0;
  for (uint64_t i = 0; i < 1000; ++i) equal += permuted(i, 1000, 1) == permuted(i, 1000, 2);
  EXPECT_LT(equal, 20u);
}

TEST(Samples, OfAnEpochAreAllOfThemOnceAndShardsDoNotOverlap) {
  const auto data = open_data("noise", 0, 1);
  std::set<uint64_t> seen;
  const int64_t batch = 4096;
  const auto steps = int64_t(data->training_samples()) / batch;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t shard = 0; shard < 3; ++shard) {
      const Batch part =
          samples_of(*data, 9, step, batch, cut(batch, 3, shard), cut(batch, 3, shard + 1));
      for (const uint64_t index : part.indices) ASSERT_TRUE(seen.insert(index).second);
    }
  }
  EXPECT_EQ(seen.size(), data->training_samples());
}

TEST(Digits, AreTheSameForTheSameSeedOnly) {
  const auto a = open_data("digits", 0, 1), b = open_data("digits", 0, 1),
             c = open_data("digits", 0, 2);
  Batch x, y, z;
  a->append(17, x);
  b->append(17, y);
  c->append(17, z);
  EXPECT_EQ(x.pixels, y.pixels);
  EXPECT_NE(x.pixels, z.pixels);
  EXPECT_EQ(x.pixels.size(), 400u);
}

std::vector<Parameter> layout_of(const std::vector<size_t>& counts) {
  std::vector<Parameter> layout;
  size_t offset = 0;
  for (const size_t count : counts) {
    layout.push_back({"p" + std::to_string(offset), {int64_t(count)}, offset, count});
    offset += count;
  }
  return layout;
}

TEST(Buckets, HoldEveryParameterOnceAndTheFirstIsSmall) {
  const auto layout = layout_of({100, 200, 50, 1000, 10, 10, 4000, 1});
  const auto buckets = buckets_of(layout, 4 * 250, 4 * 1000);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].count, 300u);
  EXPECT_EQ(buckets[1].count, 1050u);
  EXPECT_EQ(buckets[2].count, 4020u);
  EXPECT_EQ(buckets[3].count, 1u);
  size_t next = 0;
  for (const Bucket& bucket : buckets) {
    EXPECT_EQ(bucket.offset, next);
    next += bucket.count;
  }
  EXPECT_EQ(next, 5371u);
}

// Where the flat vector is cut must not show in a single bit, also in lamb's norms of whole layers.
TEST(Optimizer, GivesTheSameBitsWhereverItsPartsAreCut) {
  const auto layout = layout_of({1000, 37, 513});
  for (const char* kind : {"sgd", "adamw", "lamb"}) {
    const OptimizerSettings settings{kind, 0.01, 2, 0.9, 0.1};
    std::vector<float> whole = noise(1550, 1), parts = whole;
    const std::vector<Range> cuts{{0, 333}, {333, 1001}, {1001, 1550}};
    Optimizer one(settings, layout, {{0, 1550}}), three(settings, layout, cuts);
    for (int64_t step = 0; step < 4; ++step) {
      const std::vector<float> gradient = noise(1550, uint64_t(10 + step));
      one.begin(step);
      one.update({0, 1550}, whole, gradient);
      one.finish({0, 1550}, whole);
      three.begin(step);
      for (const Range& r : cuts)
        three.update(r, std::span(parts).subspan(r.begin, r.size()),
                     std::span(gradient).subspan(r.begin, r.size()));
      for (const Range& r : cuts) three.finish(r, std::span(parts).subspan(r.begin, r.size()));
    }
    EXPECT_EQ(whole, parts) << kind;
  }
}

TEST(Rate, RisesAndDecays) {
  OptimizerSettings s{"sgd", 1, 4, 0, 0, "constant", 0.2, 12};
  for (int64_t step = 0; step < 4; ++step)
    EXPECT_DOUBLE_EQ(rate_at(s, step), 0.2 * double(step + 1));
  EXPECT_EQ(rate_at(s, 4), 1);
  EXPECT_EQ(rate_at(s, 11), 1);
  s.decay = "linear";
  for (int64_t step = 4; step <= 12; ++step)
    EXPECT_DOUBLE_EQ(rate_at(s, step), 1 - 0.1 * double(step - 4));
  s.decay = "cosine";
  EXPECT_DOUBLE_EQ(rate_at(s, 4), 1);
  EXPECT_DOUBLE_EQ(rate_at(s, 6), 0.2 + 0.4 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(rate_at(s, 8), 0.6);
  EXPECT_DOUBLE_EQ(rate_at(s, 12), 0.2);
  EXPECT_DOUBLE_EQ(rate_at(s, 99), 0.2);  // asynchronous servers may get more
  s.warmup = 0;
  EXPECT_EQ(rate_at(s, 0), 1);
}

TEST(Volume, OfTheReferencesExample) {
  const double bytes = 4.0 * 23e6;
  EXPECT_DOUBLE_EQ(allreduce_volume("ring", 8, bytes).bytes, 161e6);
  EXPECT_EQ(allreduce_volume("ring", 8, bytes).messages, 14);
  EXPECT_DOUBLE_EQ(allreduce_volume("butterfly", 8, bytes).bytes, 276e6);
  EXPECT_DOUBLE_EQ(allreduce_volume("all-to-all", 8, bytes).bytes, 644e6);
  EXPECT_EQ(allreduce_volume("ring", 1, bytes).bytes, 0);
}

}  // namespace
}  // namespace tutti::train
