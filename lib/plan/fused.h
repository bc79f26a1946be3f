// Fused paths over shared cells: one pass where records would take several. Each implements a named
// schedule, bit for bit:
//   one-shot  all-to-all  publish the vector once, read all, reduce in rank order: one hop
//   two-shot  two-shot    in slices: publish what others own, reduce what is mine, gather the rest
// Both are state machines: advance() moves as far as the peers' flags allow and never blocks.
//
// No acknowledgements are needed. One-shot: whoever publishes call s has seen everybody publish
// s-1, and they did that after reading s-2, so whatever two calls ago was read may be overwritten.
// Two-shot: a rank publishes slice i only after gathering slice i-w+1 (w: the window); seeing slice
// i of everybody therefore means that slice i-w+1 of the results was read, and gathering slice
// i-w+1 means that slice i-w+1 of what was published was reduced; so w slots of either kind
// suffice.
//
// Blocks rotate through more memory than a core's cache holds: a line that a peer has just read is
// dear to write again (the peer's copy must be invalidated first), one that has left its cache is
// not. Measured on two cores: 64 KiB in 3.7 us rotating through 2 MiB, 9.5 us with two blocks. Only
// vectors of a few KiB are faster when they stay where they are.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/reduce/reduce.h"
#include "transports/shm/slot_link.h"

namespace tutti::plan {

class Fused {
 public:
  // `link` must have cells.
  explicit Fused(shm::SlotLink& link);

  // The longest vector, in bytes, that one-shot takes.
  size_t one_shot_bytes() const;

  struct Call {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    uint64_t count = 0;  // at least 1
    uint32_t element_size = 1;
    Kernels kernels;
    uint32_t digest = 0;
  };
  void start_one_shot(const Call& call);
  void start_two_shot(const Call& call);

  bool advance() { return one_shot_ ? advance_one_shot() : advance_two_shot(); }
  bool done() const { return done_; }
  // The lowest peer whose flag is missing, -1 if none.
  int waits_for();

 private:
  bool advance_one_shot();
  bool advance_two_shot();
  bool publish_slice();
  bool reduce_slice();
  bool gather_slice();
  // Whether all peers have set `line` to slice `index` of this call or beyond.
  bool all_reached(uint32_t line, uint32_t index);
  bool reached(uint32_t rank, uint32_t line, uint32_t index);
  void set_flag(uint32_t line, uint32_t sequence);
  void reduce_into(std::byte* out, std::byte* copy, size_t bytes);

  struct Slice {
    uint64_t offset = 0;  // bytes into the vector
    uint64_t bytes = 0;
  };
  Slice slice_of(uint32_t owner, uint32_t index) const;
  // Where `rank` puts slice `index` of what `owner` is to reduce, and of what it has reduced
  // itself.
  std::byte* published(uint32_t rank, uint32_t index, uint32_t owner) const;
  std::byte* result(uint32_t rank, uint32_t index) const;

  shm::SlotLink& link_;
  SharedCells& cells_;
  uint32_t nranks_;
  uint32_t self_;
  size_t publish_arena_;  // bytes of a rank's cells for what it publishes, then for its results
  size_t result_arena_;
  size_t most_slice_bytes_;

  Call call_;
  bool one_shot_ = true;
  bool done_ = true;
  size_t block_ = 0;          // offset in the publish arena of the current one-shot vector
  size_t next_block_ = 0;     // where the next block of any call begins
  uint32_t calls_ = 0;        // one-shot calls so far: the sequence of their flags
  uint32_t ready_peers_ = 0;  // one-shot: peers 0.. known to have published

  uint32_t slices_ = 0;  // two-shot slices before this call: the sequence of theirs
  size_t slice_bytes_ = 1;
  uint32_t publish_slots_ = 1, result_slots_ = 1, window_ = 1;
  uint32_t first_slot_ = 0;
  uint32_t rounds_ = 0, published_ = 0, reduced_ = 0, gathered_ = 0;
  std::vector<shm::FlagLine*> flags_;  // by rank
  std::vector<const void*> operands_;
  std::vector<const void*> piece_;  // the operands of a piece of a slice
};

}  // namespace tutti::plan
