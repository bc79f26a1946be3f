// Fused paths over shared cells: one pass where records would take several. Each implements a named
// schedule, bit for bit:
//   one-shot  all-to-all  publish the vector once, read all, reduce in rank order: one hop
//   two-shot  two-shot    in slices: publish what others own, reduce what is mine, gather the rest
// Both are state machines: advance() moves as far as the peers' flags allow and never blocks.
//
// No acknowledgements are needed. One-shot: whoever publishes call s has seen everybody publish s-1,
// and they did that after reading s-2, so two cells alternate. Two-shot: a rank publishes slice i
// only after gathering i-3; seeing slice i of everybody therefore means that slice i-3 of the results
// was read, and gathering i-3 means that slice i-3 of what was published was reduced; so a window of
// three slices would do and four are used.
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
  size_t one_shot_bytes() const { return one_shot_bytes_; }

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
  int waits_for() const;

 private:
  static constexpr uint32_t window = 4;

  bool advance_one_shot();
  bool advance_two_shot();
  bool publish_slice();
  bool reduce_slice();
  bool gather_slice();
  // Whether all peers have set flag line `first + sequence % window` to `sequence` for this call.
  bool all_set(uint32_t first, uint32_t sequence);
  void set_flag(uint32_t line, uint32_t sequence);
  void finish(void* result, uint64_t elements) {
    if (call_.kernels.divide != nullptr) call_.kernels.divide(result, elements, nranks_);
  }

  struct Slice {
    uint64_t offset = 0;  // bytes into the vector
    uint64_t bytes = 0;
  };
  Slice slice_of(uint32_t owner, uint32_t index) const;
  std::byte* published(uint32_t rank, uint32_t index, uint32_t owner) const;
  std::byte* result(uint32_t rank, uint32_t index) const;

  shm::SlotLink& link_;
  SharedCells& cells_;
  uint32_t nranks_;
  uint32_t self_;
  size_t one_shot_bytes_;
  size_t slice_bytes_;

  Call call_;
  bool one_shot_ = true;
  bool done_ = true;
  uint32_t calls_ = 0;       // one-shot calls so far: the sequence of their flags
  uint32_t slices_ = 0;      // two-shot slices before this call: the sequence of theirs
  uint32_t ready_peers_ = 0;  // one-shot: peers 0.. known to have published
  uint64_t shard_bytes_ = 0;  // two-shot: of the longest shard
  uint32_t rounds_ = 0, published_ = 0, reduced_ = 0, gathered_ = 0;
  std::vector<shm::FlagLine*> flags_;  // by rank
  std::vector<const void*> operands_;
};

}  // namespace tutti::plan
