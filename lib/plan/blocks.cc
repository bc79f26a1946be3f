#include "lib/plan/blocks.h"

#include <vector>

namespace tutti {

namespace {

// A buffer with a block for each of `nranks` ranks: how long they are and where they lie, in bytes.
void lay_out(const size_t* counts, const size_t* displs, uint64_t count, uint32_t nranks,
             uint32_t element_size, std::vector<uint64_t>* at, std::vector<uint64_t>* bytes) {
  at->resize(nranks);
  bytes->resize(nranks);
  uint64_t packed = 0;
  for (uint32_t r = 0; r < nranks; ++r) {
    const uint64_t length = counts != nullptr ? counts[r] : count;
    (*at)[r] = (counts != nullptr && displs != nullptr ? displs[r] : packed) * element_size;
    (*bytes)[r] = length * element_size;
    packed += length;
  }
}

}  // namespace

void extents_of(const Goal& goal, uint32_t rank, const Call& call, uint32_t element_size,
                plan::Extents* out) {
  const uint32_t n = goal.nranks();
  const Blocks equal{}, &given = call.blocks != nullptr ? *call.blocks : equal;
  const bool uneven = call.key.lengths != 0;
  const uint64_t count = uneven ? given.own : call.key.count;
  out->element_size = element_size;
  out->rank = rank;
  out->from_each_to_each = goal.blocks() > n;
  out->equal = !uneven;
  out->equal_bytes = count * element_size;
  lay_out(given.send_counts, given.send_displs, count, n, element_size, &out->input_at, &out->sent);
  lay_out(given.recv_counts, given.recv_displs, count, n, element_size, &out->output_at,
          &out->received);
  // Buffers that hold one block begin with it.
  const bool one_in = !input_has_blocks(goal.collective());
  if (one_in) out->input_at.clear();
  if (!output_has_blocks(goal.collective())) out->output_at.clear();
  if (out->equal || out->from_each_to_each) return;
  // In gather and scatter only the root knows the lengths of all blocks.
  const bool only_own = is_rooted(goal.collective()) && rank != goal.root();
  const std::vector<uint64_t>& lengths = one_in ? out->received : out->sent;
  out->begin.resize(n + size_t{1});
  for (uint32_t c = 0; c < n; ++c) {
    const bool known = !only_own || goal.has(rank, c) || goal.gets(rank, c);
    const uint64_t bytes = only_own ? given.own * element_size : lengths[c];
    out->begin[c + 1] = out->begin[c] + (known ? bytes : 0);
  }
}

LoneBlock lone_block_of(const Call& call) {
  if (call.key.lengths == 0) return {call.key.count, 0, 0};
  const Blocks& given = *call.blocks;
  const size_t* const counts = given.send_counts != nullptr ? given.send_counts : given.recv_counts;
  return {counts != nullptr ? *counts : given.own,
          given.send_displs != nullptr ? *given.send_displs : 0,
          given.recv_displs != nullptr ? *given.recv_displs : 0};
}

}  // namespace tutti
