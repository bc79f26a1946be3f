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
  const Collective collective = goal.collective();
  const bool alltoall = collective == Collective::alltoall;
  Row sent(given.send_counts, given.send_displs, count);
  Row received(given.recv_counts, given.recv_displs, count);

  out->element_size = element_size;
  out->begin.assign(chunks + size_t{1}, 0);
  out->input.assign(chunks, 0);
  out->output.assign(chunks, 0);
  // Buffers that hold one block begin with it.
  const bool one_in = collective == Collective::allgather || collective == Collective::gather;
  const bool one_out =
      collective == Collective::scatter || collective == Collective::reduce_scatter;
  for (uint32_t c = 0; c < chunks; ++c) {
    const bool has = goal.has(rank, c), gets = goal.gets(rank, c);
    uint64_t length = one_in ? received.count() : sent.count();
    if (alltoall && uneven) length = has ? sent.count() : gets ? received.count() : 0;
    // Of gathered and scattered blocks, only the root knows all.
    if (uneven && collective == Collective::gather && rank != goal.root()) {
      length = has ? given.own : 0;
    }
    if (uneven && collective == Collective::scatter && rank != goal.root()) {
      length = gets ? given.own : 0;
    }
    out->begin[c + 1] = out->begin[c] + length * element_size;
    out->input[c] = one_in ? 0 : sent.at() * element_size;
    out->output[c] = one_out ? 0 : received.at() * element_size;
    // Of alltoall the chunks of a sender come one after the other.
    sent.step();
    if (!alltoall || c % n == n - 1) received.step();
    if (alltoall && c % n == n - 1) sent.rewind();
  }
}

}  // namespace tutti
