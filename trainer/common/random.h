// Random numbers as functions of their purpose: (seed, step, shard) and the like. There is no state
// to save, and no number depends on the number of ranks.
#pragma once

#include <cstdint>

namespace tutti::train {

// splitmix64's finaliser: every bit of the result depends on every bit of x.
constexpr uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
constexpr uint64_t mixed(uint64_t a, uint64_t b) { return mixed(mixed(a) ^ b); }
constexpr uint64_t mixed(uint64_t a, uint64_t b, uint64_t c) { return mixed(mixed(a, b), c); }

// In [0, 1).
constexpr double fraction(uint64_t random) { return double(random >> 11) * 0x1p-53; }

// The image of `index` under a permutation of [0, size) that the key picks: a Feistel network over
// the next power of four, walked until it falls within. size >= 1, index < size.
constexpr uint64_t permuted(uint64_t index, uint64_t size, uint64_t key) {
  int half = 1;
  while (half < 31 && (uint64_t(1) << (2 * half)) < size) ++half;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = index >> half;
    uint64_t right = index & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (mixed(key, round, right) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= size);
  return index;
}

}  // namespace tutti::train
