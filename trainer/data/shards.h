// The shards of a step: pieces of its samples, numbered over all workers.
#pragma once

#include <cstdint>

#include "trainer/common/options.h"
#include "trainer/common/random.h"
#include "trainer/data/data.h"

namespace tutti::train {

inline int64_t shard_samples(const Options& o, int64_t shard) {
  return cut(o.batch, o.shards, shard + 1) - cut(o.batch, o.shards, shard);
}

inline Batch shard_batch(const Options& o, const Data& data, int64_t step, int64_t shard) {
  return samples_of(data, o.seed, step, o.batch, cut(o.batch, o.shards, shard),
                    cut(o.batch, o.shards, shard + 1));
}

// The seed of the shard's dropout.
inline uint64_t shard_seed(const Options& o, int64_t step, int64_t shard) {
  return mixed(o.seed, uint64_t(step), uint64_t(shard));
}

}  // namespace tutti::train
