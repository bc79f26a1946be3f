// One-hop collectives over shared cells: whoever has something for others publishes it, in slices,
// and every rank takes what is for it from where it lies. Implements, bit for bit:
//   allgather, alltoall, reduce_scatter, scan, exscan  direct
//   broadcast, gather, scatter, reduce                 flat
//
// A rank's slices go through slots that are used in turn, calls one after the other; slice s of all
// calls together lies in slot s % slots. All ranks know how many slices a call has, also those that
// have no part in it, and every rank says how far it is with reading: a slot is written again when
// all have gone past what was in it. So a rank may leave a call before others enter it, and runs
// ahead by as many slices as there are slots. Short slices travel in the line of the slot's flag.
#pragma once

#include <vector>

#include "algorithms/goal.h"
#include "lib/plan/board.h"
#include "lib/reduce/reduce.h"
#include "lib/transfers.h"

namespace tutti::plan {

// A call as this path sees it: equal blocks, one after the other in a buffer that has several.
struct PullCall {
  Collective collective = Collective::allgather;
  uint32_t root = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t count = 0;  // elements of a vector, or of a block; at least 1
  uint32_t element_size = 1;
  Kernels kernels;
  uint32_t digest = 0;
};

class Pull {
 public:
  // `link` must have cells.
  explicit Pull(shm::SlotLink& link);

  // The longest elements, in bytes, that it takes among so many ranks.
  static size_t most_element_bytes(uint32_t nranks);

  void start(const PullCall& call);
  // Moves as far as the peers' flags allow and never blocks. Returns whether anything moved.
  bool advance();
  bool done() const { return done_; }
  // The lowest peer that is waited for, -1 if none.
  int waits_for();
  // Of all calls that are done: those of the schedule.
  const Transfers& transfers() const { return transfers_; }

 private:
  // Who does what in calls of this collective and root.
  void set_roles(const Goal& goal);
  // Whether every reader has a part of its own.
  bool separate_parts() const;

  void place_own_block();
  bool publish_slice();
  bool take_slice();
  bool has_room();
  bool there(uint32_t source, uint32_t slice);
  std::byte* slot(uint32_t rank, uint32_t sequence) const;
  const std::byte* part_of(uint32_t source, uint32_t slice) const;
  void fetch_next() const;
  void reduce_slice(uint64_t offset, size_t bytes);
  void copy_slice(uint64_t offset, size_t bytes);

  SharedCells& cells_;
  Board board_;
  uint32_t nranks_;
  uint32_t self_;
  size_t arena_;  // of the slots in a rank's cells

  PullCall call_;
  bool done_ = true;
  Goal goal_;
  uint32_t readers_ = 0;           // who take from this rank
  std::vector<uint32_t> sources_;  // whom it takes from
  uint64_t part_bytes_ = 0;        // of one part
  uint32_t parts_ = 1;             // that a rank publishes
  uint64_t slice_bytes_ = 0;       // of one part in one slice
  size_t stride_ = 0;              // from part to part in a slot
  bool in_line_ = false;
  uint32_t slices_ = 0;  // of this call
  uint32_t before_ = 0;  // slices of all calls before it
  uint32_t published_ = 0, taken_ = 0;
  bool ahead_ = true;                    // all that was looked for in this call was there already
  const std::byte* own_from_ = nullptr;  // the own block's way, until it has gone it
  std::byte* own_to_ = nullptr;
  uint32_t room_until_ = 0;  // slices of all calls that may be published, as far as known
  std::vector<const void*> operands_;
  Transfers transfers_;
};

}  // namespace tutti::plan
