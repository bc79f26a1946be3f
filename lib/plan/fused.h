// Fused paths over shared cells: one pass where records would take several. Each implements a named
// schedule, bit for bit:
//   one-shot  all-to-all  publish the vector once, read all, reduce in rank order: one hop
//   two-level two-level   publish, fold what the own group published, publish that, fold the groups
//   two-shot  two-shot    in slices: publish what others own, reduce what is mine, gather the rest
// Where all ranks' vectors lie in memory that the others reach, both give way to direct access
// (direct.h), which gives the same bits. No rank knows beforehand what the others pass: one that
// could go direct says so and waits; as soon as it sees anybody stage, it stages too. All are state
// machines: advance() moves as far as the peers' flags allow and never blocks.
//
// No acknowledgements are needed, because before a rank has heard from all peers in a call, it
// writes nothing that the call before may have left unread. Within a path: one-shot: whoever
// publishes call s has seen everybody publish s-1, and they did that after reading s-2, so whatever
// two calls ago was read may be overwritten. Two-level: the same, for what a group has made in s-1
// shows that all its members had published. Two-shot: a rank publishes slice i only after gathering
// slice i-w+1 (w: the window); seeing slice i of everybody therefore means that slice i-w+1 of the
// results was read, and gathering slice i-w+1 means that slice i-w+1 of what was published was
// reduced; so w slots of either kind suffice. From path to path: who has ended call s has heard
// from all in it, so all have ended s-1 and nobody reads anything of it. What s may leave unread
// is, of one-shot and two-level, a vector and a group's result; of two-shot, results, but nothing
// that was published, for whoever has all results knows that all have reduced; of direct, nothing.
// What s+1 writes before it has heard from all is, of one-shot and two-level, in the other resident
// place or clear of the block of s in the arena; of two-shot, its first slices, as far as they are
// clear of that block, then no more until all are heard from. Calls of nothing and by other ways
// touch none of this memory; after an error nobody makes another call.
//
// Blocks rotate through more memory than a core's cache holds: a line that a peer has just read is
// dear to write again (the peer's copy must be invalidated first), one that has left its cache is
// not. Measured on two cores: 64 KiB in 3.7 us rotating through 2 MiB, 9.5 us with two blocks. Only
// vectors of a few KiB are faster when they stay where they are.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/patterns.h"
#include "lib/plan/direct.h"
#include "lib/plan/slice_writer.h"
#include "lib/transfers.h"

namespace tutti::plan {

class Fused {
 public:
  // `link` must have cells; `writer` outlives this.
  // `group_size`: of two-level's groups.
  Fused(shm::SlotLink& link, SliceWriter& writer, const shm::Regions& regions, uint32_t group_size);

  // The longest vectors, in bytes, that they take.
  static size_t one_shot_bytes();
  static size_t two_level_bytes();

  void start_one_shot(const FusedCall& call) { start(call, Path::one_shot); }
  void start_two_level(const FusedCall& call) { start(call, Path::two_level); }
  void start_two_shot(const FusedCall& call) { start(call, Path::two_shot); }

  bool advance() {
    if (mode_ != Mode::staged) [[unlikely]]
      return advance_direct();
    if (path_ == Path::one_shot) return advance_one_shot();
    return path_ == Path::two_shot ? advance_two_shot() : advance_two_level();
  }
  bool done() const { return done_; }
  // Whether the call, once done, has failed, and how. The link knows of all other failures.
  const Status& failure() const { return failure_; }
  // After a call that has failed: the peers leave this rank's vectors alone.
  void withdraw() {
    if (mode_ != Mode::staged) direct_.withdraw();
  }
  // The lowest peer whose flag is missing, -1 if none.
  int waits_for();
  // Calls so far that went direct.
  uint64_t direct_calls() const { return direct_calls_; }
  // Of all calls that are done: those of the schedule that was followed.
  const Transfers& transfers() const { return transfers_; }

 private:
  enum class Mode : uint8_t { staged, meeting, direct };
  enum class Path : uint8_t { one_shot, two_level, two_shot };

  void start(const FusedCall& call, Path path);
  void stage();
  void stage_one_shot();
  void stage_two_shot();
  bool advance_direct();
  bool meet();
  bool staged_at(uint32_t rank);
  bool advance_one_shot();
  void stage_two_level();
  bool advance_two_level();
  bool fold_group();
  bool fold_groups();
  bool advance_two_shot();
  bool publish_slice();
  bool reduce_slice();
  bool gather_slice();
  // Whether all peers have set `line` to slice `index` of this call or beyond.
  bool all_reached(uint32_t line, uint32_t index);
  bool reached(uint32_t rank, uint32_t line, uint32_t index);
  bool published_one_shot(uint32_t rank) const;
  bool published_group(uint32_t rank) const;
  const std::byte* group_result(uint32_t rank) const;
  void count_two_shot();
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

  SharedCells& cells_;
  Board board_;
  Direct direct_;
  SliceWriter& writer_;
  uint32_t nranks_;
  uint32_t self_;
  size_t publish_arena_;  // bytes of a rank's cells for what it publishes, then for its results
  size_t result_arena_;
  size_t most_slice_bytes_;

  FusedCall call_;
  Path path_ = Path::one_shot;
  bool done_ = true;
  Mode mode_ = Mode::staged;
  uint32_t turn_ = 0;      // calls so far
  size_t block_ = 0;       // offset in the publish arena of the current one-shot vector
  size_t next_block_ = 0;  // where the next block of any call begins
  // Of the publish arena, in bytes; empty: none.
  struct Block {
    size_t begin = 0, end = 0;
  };
  Block staged_;              // of this call
  Block unread_;              // of the call before: peers may still read it
  uint32_t calls_ = 0;        // one-shot and two-level calls so far: the sequence of their flags
  uint32_t ready_peers_ = 0;  // one-shot: peers 0.. known to have published
  TwoLevels levels_;
  uint32_t group_readers_ = 0;  // two-level: ranks that read the own group's result here
  bool group_folded_ = false;   // two-level: the own group's result is published

  uint32_t slices_ = 0;   // two-shot slices before this call: the sequence of theirs
  bool streams_ = false;  // the output is written past the caches
  size_t slice_bytes_ = 1;
  uint32_t publish_slots_ = 1, result_slots_ = 1, window_ = 1;
  uint32_t first_slot_ = 0;
  uint32_t clear_slots_ = 1;  // slots from the first on that the call before has left nothing in
  uint32_t rounds_ = 0, published_ = 0, reduced_ = 0, gathered_ = 0;
  std::vector<const void*> operands_;
  std::vector<const void*> piece_;  // the operands of a piece of a slice

  uint64_t direct_calls_ = 0;
  Transfers transfers_;
  Status failure_;
};

}  // namespace tutti::plan
