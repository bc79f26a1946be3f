// The flag lines of all ranks: each rank posts to its own and looks at the others'.
#pragma once

#include <vector>

#include "lib/slots/access.h"
#include "lib/slots/slot_link.h"

namespace tutti::shared {

// Which line is for what. Only every other line is used, because processors fetch lines in pairs:
// neighbours would suffer from false sharing. The lines of slices are consecutive, since they are
// read one after the other.
namespace line {
constexpr uint32_t one_shot = 0;       // and 2: vectors, in turn
constexpr uint32_t publish = 4;        // two-shot: slices published
constexpr uint32_t result = 6;         // two-shot: slices reduced
constexpr uint32_t places = 8;         // direct, copied: where the vectors lie
constexpr uint32_t finish = 10;        // direct, copied: the rank touches no peer's vector any more
constexpr uint32_t group = 12;         // and 14: two-level: results of the own group, in turn
constexpr uint32_t begun = 16;         // direct, one-hop: the rank is at the peers' vectors
constexpr uint32_t one_hop_read = 18;  // one-hop, credit: slices that the rank has read or skipped
constexpr uint32_t identity = 20;      // single copy: who the rank is
constexpr uint32_t can_read = 22;      // single copy: whether it can read all others' memory
constexpr uint32_t reduced = 24;       // copied: the own share is reduced
constexpr uint32_t verdict = 26;       // and 28: of a trial, in turn (verdicts.h)
constexpr uint32_t timed = 30;         // the last call that was timed, and that the rank has ended
constexpr uint32_t one_hop = 32;       // and those after it: its slices
constexpr uint32_t most_slices = 128;
}  // namespace line

static_assert(line::one_hop + line::most_slices == slots::Geometry::cell_flag_lines);

class FlagLines {
 public:
  // `link` must have cells.
  explicit FlagLines(slots::SlotLink& link) : link_(link), self_(link.cells()->rank()) {
    for (uint32_t rank = 0; rank < link.cells()->nranks(); ++rank) {
      ranks_.push_back(link.cells()->flags(rank));
    }
  }

  uint32_t nranks() const { return uint32_t(ranks_.size()); }
  uint32_t self() const { return self_; }

  slots::FlagLine& at(uint32_t rank, uint32_t line) const { return ranks_[rank][line]; }
  uint64_t flag(uint32_t rank, uint32_t line) const {
    return slots::load(at(rank, line).flag, std::memory_order_acquire);
  }
  // To be called after what the flag announces was written. Wakes the peers.
  void post(uint32_t line, uint32_t sequence, uint32_t digest) {
    set(line, sequence, digest);
    link_.wake_all();
  }
  // Wakes nobody: where a post() follows, or no peer sleeps until the flag changes.
  void set(uint32_t line, uint32_t sequence, uint32_t digest) {
    slots::store(at(self_, line).flag, make_flag(sequence, digest), std::memory_order_release);
  }
  void prefetch_for_write(uint32_t line) const {
    slots::prefetch_for_write(reinterpret_cast<const std::byte*>(&at(self_, line)), 1);
  }
  void clear(uint32_t line) {
    slots::store(at(self_, line).flag, uint64_t{0}, std::memory_order_release);
  }
  // Whether `rank` has posted exactly this. The same sequence with another digest is a mismatched
  // call: inspect() of the link will look into it.
  bool posted(uint32_t rank, uint32_t line, uint32_t sequence, uint32_t digest) const {
    const uint64_t there = flag(rank, line);
    if (there == make_flag(sequence, digest)) return true;
    if (flag_sequence(there) == sequence) link_.note_mismatched(int(rank));
    return false;
  }
  // The lowest other rank that has not posted exactly this, -1 if all have.
  int missing(uint32_t line, uint32_t sequence, uint32_t digest) const {
    for (uint32_t rank = 0; rank < nranks(); ++rank) {
      if (rank != self_ && !posted(rank, line, sequence, digest)) return int(rank);
    }
    return -1;
  }
  void note_mismatched(uint32_t rank) const { link_.note_mismatched(int(rank)); }

 private:
  slots::SlotLink& link_;
  uint32_t self_;
  std::vector<slots::FlagLine*> ranks_;
};

}  // namespace tutti::shared
