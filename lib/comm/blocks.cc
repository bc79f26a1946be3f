#include "lib/comm/blocks.h"

namespace tutti {

namespace {

// The length of the block, and its place in a buffer that has all of them.
struct Block {
  uint64_t count = 0;
  uint64_t at = 0;
};

// All of a buffer.
std::vector<Block> blocks_of(const size_t* counts, const size_t* displs, uint64_t count,
                             uint32_t n) {
  std::vector<Block> all(n);
  uint64_t packed = 0;
  for (uint32_t i = 0; i < n; ++i) {
    all[i].count = counts != nullptr ? counts[i] : count;
    all[i].at = counts != nullptr && displs != nullptr ? displs[i] : packed;
    packed += all[i].count;
  }
  return all;
}

}  // namespace

void extents_of(const Goal& goal, uint32_t rank, const Call& call, uint32_t element_size,
                plan::Extents* out) {
  const uint32_t n = goal.nranks(), chunks = goal.blocks();
  const Blocks equal{}, &given = call.blocks != nullptr ? *call.blocks : equal;
  const bool uneven = call.key.lengths != 0;
  const uint64_t count = uneven ? given.own : call.key.count;
  const bool alltoall = goal.collective() == Collective::alltoall;
  const auto sent = blocks_of(given.send_counts, given.send_displs, count, n);
  const auto received = blocks_of(given.recv_counts, given.recv_displs, count, n);

  out->element_size = element_size;
  out->begin.assign(chunks + size_t{1}, 0);
  out->input.assign(chunks, 0);
  out->output.assign(chunks, 0);
  // Buffers that hold one block begin with it.
  const bool one_in =
      goal.collective() == Collective::allgather || goal.collective() == Collective::gather;
  const bool one_out =
      goal.collective() == Collective::scatter || goal.collective() == Collective::reduce_scatter;
  for (uint32_t c = 0; c < chunks; ++c) {
    const uint32_t from = alltoall ? c / n : c, to = alltoall ? c % n : c;
    const bool has = goal.has(rank, c), gets = goal.gets(rank, c);
    uint64_t length = one_in ? received[from].count : sent[to].count;
    if (alltoall && uneven) length = has ? sent[to].count : gets ? received[from].count : 0;
    // Of gathered and scattered blocks, only the root knows all.
    if (uneven && goal.collective() == Collective::gather && rank != goal.root()) {
      length = has ? given.own : 0;
    }
    if (uneven && goal.collective() == Collective::scatter && rank != goal.root()) {
      length = gets ? given.own : 0;
    }
    out->begin[c + 1] = out->begin[c] + length * element_size;
    out->input[c] = one_in ? 0 : sent[to].at * element_size;
    out->output[c] = one_out ? 0 : received[from].at * element_size;
  }
}

}  // namespace tutti
