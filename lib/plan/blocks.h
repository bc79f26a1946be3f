// Where the blocks of a call lie, for the plan that moves them.
#pragma once

#include <numeric>
#include <span>

#include "lib/call/call.h"
#include "lib/plan/plan.h"
#include "lib/schedule/goal.h"

namespace tutti {

// Fills *out for the blocks of `call` at `rank`. Blocks that the rank neither has nor gets, and
// whose length it does not know, count as empty. The collective must be one of blocks.
void extents_of(const Goal& goal, uint32_t rank, const Call& call, uint32_t element_size,
                plan::Extents* out);

// Where the one block lies in a communicator of one rank, in elements.
struct LoneBlock {
  uint64_t count, input, output;
};
LoneBlock lone_block_of(const Call& call);

// What all ranks must agree on about the lengths of blocks, where all know them; never 0.
inline uint64_t digest_of(std::span<const size_t> lengths) { return hash_of(lengths) | 1; }
inline uint64_t sum_of(std::span<const size_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
}

}  // namespace tutti
