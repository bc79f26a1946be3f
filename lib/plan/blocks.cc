#include "lib/plan/blocks.h"

namespace tutti {

namespace {

// The blocks of a buffer that has all of them, one after the other.
class Row {
 public:
  Row(const size_t* counts, const size_t* displs, uint64_t count)
      : counts_(counts), displs_(displs), count_(count) {}

  void rewind() {
    next_ = 0;
    packed_ = 0;
  }
  void step() { packed_ += count(next_++); }
  // Of the block that it stands at: its elements, and those before it.
  uint64_t count() const { return count(next_); }
  uint64_t at() const {
    return counts_ != nullptr && displs_ != nullptr ? displs_[next_] : packed_;
  }

 private:
  uint64_t count(size_t i) const { return counts_ != nullptr ? counts_[i] : count_; }

  const size_t *counts_, *displs_;
  uint64_t count_;  // of each where there are no counts
  size_t next_ = 0;
  uint64_t packed_ = 0;
};

}  // namespace

void extents_of(const Goal& goal, uint32_t rank, const Call& call, uint32_t element_size,
                plan::Extents* out) {
  const uint32_t n = goal.nranks(), chunks = goal.blocks();
  const Blocks equal{}, &given = call.blocks != nullptr ? *call.blocks : equal;
  const bool uneven = call.key.lengths != 0;
  const uint64_t count = uneven ? given.own : call.key.count;
  // Buffers that hold one block begin with it.
  const bool one_in = !input_has_blocks(goal.collective());
  const bool one_out = !output_has_blocks(goal.collective());
  Row sent(given.send_counts, given.send_displs, count);
  Row received(given.recv_counts, given.recv_displs, count);

  out->element_size = element_size;
  out->begin.assign(chunks + size_t{1}, 0);
  out->input.assign(chunks, 0);
  out->output.assign(chunks, 0);
  const bool all_to_all = chunks > n;
  // Of gathered and scattered blocks only the root knows the lengths of all.
  const bool only_own = uneven && is_rooted(goal.collective()) && rank != goal.root();
  for (uint32_t c = 0; c < chunks; ++c) {
    const bool has = goal.has(rank, c), gets = goal.gets(rank, c);
    uint64_t length = one_in ? received.count() : sent.count();
    if (all_to_all && uneven) length = has ? sent.count() : gets ? received.count() : 0;
    if (only_own) length = has || gets ? given.own : 0;
    out->begin[c + 1] = out->begin[c] + length * element_size;
    out->input[c] = one_in ? 0 : sent.at() * element_size;
    out->output[c] = one_out ? 0 : received.at() * element_size;
    // Of an alltoall the chunks of a sender come one after the other.
    sent.step();
    if (!all_to_all || c % n == n - 1) received.step();
    if (all_to_all && c % n == n - 1) sent.rewind();
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
