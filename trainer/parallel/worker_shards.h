// Which shards of a step a worker computes, also where the number of workers does not divide
// theirs.
#pragma once

#include <algorithm>
#include <bit>

#include "trainer/data/data.h"
#include "trainer/parallel/split.h"

namespace tutti::train {

// At level canonical each worker gets a whole subtree of the canonical tree over the shards, so
// that the canonical sum over the workers' sums has the bits of that tree: shards are then divided
// less evenly, by up to a factor of two. Else their numbers differ by at most one.
// 1 <= workers <= shards.
constexpr Span worker_shards(int64_t shards, int64_t workers, int64_t worker, bool canonical) {
  if (!canonical) return {cut(shards, workers, worker), cut(shards, workers, worker + 1)};
  // Of both trees the extra leaves are joined in pairs first; `nodes` and `groups` are left.
  const auto nodes = int64_t(std::bit_floor(uint64_t(shards)));
  const auto groups = int64_t(std::bit_floor(uint64_t(workers)));
  const int64_t pairs = shards - nodes, paired = workers - groups;
  const int64_t each = nodes / groups;  // NOLINT(clang-analyzer-core.DivideZero): 1 <= workers
  const auto leaf = [&](int64_t node) { return node + std::min(node, pairs); };
  if (worker >= 2 * paired)
    return {leaf((worker - paired) * each), leaf((worker - paired + 1) * each)};
  const int64_t group = worker / 2, half = worker % 2;
  if (each == 1) return {leaf(group) + half, leaf(group) + half + 1};
  const int64_t first = group * each + half * (each / 2);
  return {leaf(first), leaf(first + each / 2)};
}

}  // namespace tutti::train
