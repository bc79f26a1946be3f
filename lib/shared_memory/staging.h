// Where a rank stages vectors that the others reduce, and what it may write there: shared by
// one-shot, two-level and two-shot, which take turns in the same memory. The cells of a rank: two
// resident places, the publish arena, the result arena; behind them the ring of one_hop.h.
//
// No acknowledgements are needed, because of one rule: in a call, a rank that has not yet heard
// from all peers overwrites nothing that the call before may have left unread.
//   A rank that has ended call s has heard from all peers in it (in two-level through their groups,
//   in direct by their "done"). So all ranks have ended the calls before s, and nobody reads the
//   memory of those calls any more. Once a rank has heard from all in the call after s, the same
//   holds for s.
//   What s may leave unread: one-shot: its own vector. Two-level: that and its group's result.
//   Two-shot: results, but no published slices, because a rank that has all results knows that all
//   ranks have reduced all published slices. Direct: nothing.
//   What the next call writes before it has heard from all: one-shot and two-level: a vector or a
//   group's result in that one of the two resident places that was last used before s, or a vector
//   in the publish arena, clear of the block of s. Two-shot: its first slices, as long as they are
//   clear of that block, but never a result, because results follow the first slices of all.
// Empty calls and calls by other paths (one_hop.h, links) touch none of this memory. After an
// error nobody makes another call. tests/simulation checks the rule for every order of calls.
//
// Blocks rotate through more memory than a core's cache holds: a line that a peer has just read is
// expensive to write again (the peer's copy must be invalidated first), a line that has left the
// peer's cache is not. Measured on two cores: 64 KiB in 3.7 us rotating through 2 MiB, 9.5 us with
// two blocks. Only vectors of a few KiB are faster when they stay where they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/reduce/reduce.h"
#include "lib/shared_memory/flag_lines.h"
#include "lib/shared_memory/slice_writer.h"
#include "lib/tuning/tuning.h"

namespace tutti::shared {

struct OneHopShape;

// An allreduce as its protocols see it. What it points to must outlive the call.
struct AllreduceCall {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t count = 0;  // at least 1
  uint32_t element_size = 1;
  const Kernels* kernels = nullptr;
  uint32_t digest = 0;
  SliceStores stores = SliceStores::library;
  bool narrow = false;                 // of a sliced one-shot: as OneHopCall says
  bool copies = false;                 // ranks may copy from each other's vectors (copied.h)
  bool staged = false;                 // vectors are staged also where all ranks get at them
  bool own_first = false;              // results are written here, and copied from here
  bool one_shot = false;               // direct: in one shot, where all may (direct.h)
  const OneHopShape* shape = nullptr;  // of a sliced one-shot

  size_t bytes() const { return count * element_size; }
};

// A part of its vectors, in bytes from their beginning.
struct Range {
  uint64_t begin = 0, end = 0;
};

constexpr size_t inline_bytes = sizeof(slots::FlagLine::payload);

constexpr size_t whole_lines(size_t bytes) {
  return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

class Staging {
 public:
  // `link` must have cells; `writer` outlives this.
  Staging(slots::SlotLink& link, SliceWriter& writer, const Tuning& tuning);

  FlagLines& flags() { return flags_; }
  const FlagLines& flags() const { return flags_; }
  SliceWriter& writer() { return writer_; }
  const Tuning& tuning() const { return tuning_; }
  uint32_t nranks() const { return flags_.nranks(); }
  uint32_t self() const { return flags_.self(); }

  // A call of any of the protocols begins.
  void begin_call() {
    ++turn_;
    unread_ = block_;
    block_ = {};
  }
  uint32_t turn() const { return turn_; }  // number of the call among those of all protocols
  // The number of the call among those whose vectors alternate between the two resident places and
  // between two flag lines, by its parity.
  uint32_t next_resident() { return ++resident_calls_; }

  // The resident place of that call, as an offset into every rank's cells.
  size_t resident(uint32_t call) const { return (call & 1) != 0 ? tuning_.resident_bytes : 0; }
  std::byte* resident(uint32_t rank, uint32_t call) const { return data_[rank] + resident(call); }
  // The longest vector that goes to the publish arena as a block. The arena has room for four, so a
  // block is clear of the one before, and beside a block there is room for slots of any length.
  size_t most_block_bytes() const {
    return std::min(tuning_.one_shot_bytes, std::min(publish_arena_, tuning_.rotated_bytes) / 4);
  }
  // Places a vector of so many bytes as a block: the offset into the cells, the same on all ranks.
  size_t place_block(size_t bytes);
  // Where the next block of so many bytes will be placed.
  size_t next_block(size_t bytes) const;
  // Where the cells of each rank begin.
  std::byte* const* cells() const { return data_.data(); }
  std::byte* published(uint32_t rank, size_t offset) const {
    return data_[rank] + 2 * tuning_.resident_bytes + offset;
  }
  std::byte* result(uint32_t rank, size_t offset) const {
    return published(rank, publish_arena_ + offset);
  }

  // Slots of two-shot, for slices of one call. Slice i lies in slot first + i, modulo their number.
  struct Slots {
    size_t slice_bytes = 1;
    size_t stride = 1;       // from slot to slot of what is published
    uint32_t published = 1;  // slots for what is published
    uint32_t results = 1;    // and for results
    uint32_t window = 1;     // slices that a rank may be ahead
    uint32_t first = 0;
    uint32_t clear = 1;  // slots from the first on that hold nothing unread of the call before
  };
  size_t most_slice_bytes() const { return most_slice_bytes_; }
  Slots place_slots(size_t slice_bytes, uint32_t slices);

 private:
  // A part of the publish arena, in bytes; empty: none.
  struct Block {
    size_t begin = 0, end = 0;
  };
  static constexpr uint32_t least_window = 4;

  FlagLines flags_;
  std::vector<std::byte*> data_;  // where each rank's cells begin
  SliceWriter& writer_;
  const Tuning tuning_;
  size_t publish_arena_, result_arena_;  // bytes
  size_t most_slice_bytes_;

  uint32_t turn_ = 0;
  uint32_t resident_calls_ = 0;
  size_t next_ = 0;  // where the next block or slot begins in the publish arena
  Block block_;      // of this call
  Block unread_;     // of the call before: peers may still read it
};

}  // namespace tutti::shared
