// Allreduce of a long vector in two hops, in slices: every rank publishes what others own, reduces
// its own share of all vectors in rank order, and gathers the other shares' results. Implements
// two-shot, bit for bit.
//
// A rank publishes slice i only after gathering result slice i-w+1 (w: the window). So once slice i
// of all ranks is there, all have read result slice i-w+1; and once a rank has gathered result
// slice i-w+1, all have reduced published slice i-w+1. Therefore w slots of each kind suffice.
// staging.h says how slots stay clear of earlier calls.
#pragma once

#include <vector>

#include "lib/base/transfers.h"
#include "lib/schedule/chunks.h"
#include "lib/shared_memory/staging.h"

namespace tutti::shared {

// Whether the inputs and outputs of `nranks` ranks exceed the host's last-level cache: then results
// are better written with non-temporal stores. Measured on two ranks: 16 MiB in 0.7 of the time,
// 4 MiB in 1.4.
bool exceeds_cache(size_t vector_bytes, uint32_t nranks, const Tuning& tuning);

// What each rank reduces of the vector.
schedule::ChunkMap shards_of(const AllreduceCall& call, uint32_t nranks);

// Counts what a rank sends and receives in a two-shot call: a part of its vector for every other
// owner, and the result of its own shard for all. Empty shards cause no messages.
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
  // Where `rank` puts slice `index` of what `owner` reduces; result(): of what `rank` has reduced.
  std::byte* published(uint32_t rank, uint32_t index, uint32_t owner) const;
  std::byte* result(uint32_t rank, uint32_t index) const;

  Staging& staging_;
  AllreduceCall call_;
  bool done_ = true;
  bool streams_ = false;        // the output is written with non-temporal stores
  uint32_t slices_before_ = 0;  // of earlier calls: the sequences of flags continue from it
  uint32_t slices_ = 0;         // of this call, once it is staged
  uint32_t published_ = 0, reduced_ = 0, gathered_ = 0;
  Staging::Slots slots_;
  std::vector<const void*> operands_;
  std::vector<const void*> piece_;  // the operands of a piece of a slice
  Transfers transfers_;
};

}  // namespace tutti::shared
