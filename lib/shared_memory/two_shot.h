// Allreduce of a long vector in two hops, in slices: every rank publishes what others own, reduces
// its own share of all vectors in rank order, and gathers the other shares' results. Implements
// two-shot, bit for bit.
//
// A rank publishes slice i only after gathering slice i-w+1 (w: the window); seeing slice i of
// everybody therefore means that slice i-w+1 of the results was read, and gathering slice i-w+1
// means that slice i-w+1 of what was published was reduced; so w slots of either kind suffice.
// What lies there of earlier calls is staging.h's concern.
#pragma once

#include <vector>

#include "lib/base/transfers.h"
#include "lib/shared_memory/staging.h"

namespace tutti::shared {

// Whether the vectors of `nranks` ranks are more than the host's last-level cache holds: then
// results are better written past it. Measured on two ranks: 16 MiB in 0.7 of the time, 4 MiB
// in 1.4.
bool exceeds_cache(size_t vector_bytes, uint32_t nranks);

// What a rank sends and receives of such a call: a part of its vector for every other owner, and
// its own part's result for all. Shards that are empty are nobody's.
void count_two_shot(const AllreduceCall& call, uint32_t nranks, uint32_t self, Transfers* out);

class TwoShot {
 public:
  explicit TwoShot(Staging& staging);

  // `call` is the next one; stage() makes ready what advance() publishes.
  void enter(const AllreduceCall& call) {
    call_ = call;
    slices_before_ += slices_;
    slices_ = 0;
    done_ = false;
  }
  void stage();
  bool staged_at(uint32_t rank) { return reached(rank, line::publish, 0); }
  bool advance();
  bool done() const { return done_; }
  int waits_for();
  const Transfers& transfers() const { return transfers_; }

 private:
  struct Slice {
    uint64_t offset = 0;  // bytes into the vector
    uint64_t bytes = 0;
  };
  Slice slice_of(uint32_t owner, uint32_t index) const;
  bool publish_slice();
  bool reduce_slice();
  bool gather_slice();
  void reduce_into(std::byte* out, std::byte* copy, size_t bytes);
  // Whether all peers have set `line` to slice `index` of this call or beyond.
  bool all_reached(uint32_t line, uint32_t index);
  bool reached(uint32_t rank, uint32_t line, uint32_t index);
  // Where `rank` puts slice `index` of what `owner` is to reduce, and of what it has reduced
  // itself.
  std::byte* published(uint32_t rank, uint32_t index, uint32_t owner) const;
  std::byte* result(uint32_t rank, uint32_t index) const;

  Staging& staging_;
  AllreduceCall call_;
  bool done_ = true;
  bool streams_ = false;        // the output is written with non-temporal stores
  uint32_t slices_before_ = 0;  // of earlier calls: the sequence of flags goes on
  uint32_t slices_ = 0;         // of this call, once it is staged
  uint32_t published_ = 0, reduced_ = 0, gathered_ = 0;
  Staging::Slots slots_;
  std::vector<const void*> operands_;
  std::vector<const void*> piece_;  // the operands of a piece of a slice
  Transfers transfers_;
};

}  // namespace tutti::shared
