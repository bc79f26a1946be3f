// One-hop collectives over shared cells: whoever has something for others publishes it, in slices,
// and every rank takes what is for it from where it lies. Implements, bit for bit:
//   allgather, alltoall, reduce_scatter, scan, exscan  direct
//   broadcast, gather, scatter, reduce                 flat
//
// A rank's slices lie in a ring, calls one after the other. All ranks know how many slices a call
// has and how long they are, also those that have no part in it, so slice s of all calls together
// has the same place in everybody's ring; and every rank says how far it is with reading: a place
// is written again when all have gone past what was in it. So a rank may leave a call before others
// enter it, and runs ahead as far as the ring and its flags reach. Short slices travel in the line
// of their flag, those of up to eight bytes in a quarter of a line: a reader that is behind gets
// four calls with one look.
//
// Where lines come from afar, or ranks take turns on their cores, what is long for others may stay
// where it is: its rank then says where that is, in the line of the first slice, and stays until
// all have copied it from there (single_copy.h). Each rank decides so for itself, call by call; a
// call has as many slices either way.
#pragma once

#include <vector>

#include "lib/base/transfers.h"
#include "lib/reduce/reduce.h"
#include "lib/shared_memory/flag_lines.h"
#include "lib/shared_memory/one_hop_shape.h"
#include "lib/shared_memory/single_copy.h"
#include "lib/shared_memory/slice_writer.h"

namespace tutti::shared {

struct OneHopCall {
  const OneHopShape* shape = nullptr;  // this and the next stay until the call has ended
  const Kernels* kernels = nullptr;
  const std::byte* input = nullptr;
  // Between them, so that the two are not copied in one word: they were just written as two, and
  // that would cost as much as twenty instructions.
  uint32_t digest = 0;
  std::byte* output = nullptr;
};

class OneHop {
 public:
  // `link` must have cells; `writer` outlives this. `single_copy`: what the others may read this
  // rank's memory for.
  OneHop(slots::SlotLink& link, SliceWriter& writer, ReadFor single_copy,
         const Tuning& tuning = {});

  // Here, so that `call` never is in memory.
  void start(const OneHopCall& call) {
    call_ = call;
    shape_ = call.shape;
    start_next();
  }
  // Moves as far as the peers' flags allow and never blocks. Returns whether anything moved.
  bool advance();
  bool done() const { return done_; }
  // Whether the call, once done, has failed, and how. The link knows of all other failures.
  const Status& failure() const { return failure_; }
  // The call has failed: what this rank has said of its memory holds no more.
  void withdraw();
  // The lowest peer that is waited for, -1 if none.
  int waits_for();
  int needs() { return waits_for(); }
  // Of all calls that are done: those of the schedule.
  const Transfers& transfers() const { return transfers_; }

 private:
  void start_next();
  ReadFor read_for() const;
  // Whether ranks may copy from each other's input, where it is known if they can.
  void choose_way();
  void begin();
  // Whether the others copy from this rank's input in this call.
  bool shows_input();
  void copy_own_block();
  bool publish_slice();
  template <class Copy>
  void write_parts(std::byte* to, const std::byte* from, size_t bytes, Copy&& copy) const;
  bool take_slice();
  bool has_room();
  bool fits(uint32_t sequence) const;
  // The same, after a look at how far the peers are.
  bool fits_by_now(uint32_t sequence);
  void ask_line_back(uint32_t sequence) const;
  bool there(uint32_t source, uint32_t slice);
  // Where the flag of a slice is, and after that its bytes where they travel with it.
  std::byte* cell_of(uint32_t rank, uint32_t sequence) const;
  // Gives the slices of the call up to this one their places in the rings.
  void place(uint32_t slice);
  // The same for calls before that needed none.
  void place_earlier();
  // Of one that has a place, or the one after the last of them.
  uint64_t begin_of(uint32_t sequence) const {
    return sequence == placed_ ? next_begin_ : begins_[index_of(sequence)];
  }
  uint32_t index_of(uint32_t sequence) const { return sequence & (tuning_.ring_slices - 1); }
  uint32_t line_of(uint32_t sequence) const { return line::one_hop + index_of(sequence); }
  std::byte* data_of(uint32_t rank, uint32_t sequence) const;
  // The first bytes of this rank's part of a slice.
  const std::byte* part_of(uint32_t source, uint32_t slice, size_t bytes) const;
  void fetch_next() const;
  void note_shown();
  bool shows(size_t i) const { return may_show_ && shown_[i].part != nullptr; }
  bool has_copied_slice() const;
  bool copy_shown(size_t i);
  bool copy_from(size_t i, uint64_t offset, std::byte* to, size_t bytes);
  const std::byte* fetched(size_t i, uint64_t offset, size_t bytes);
  bool is_read() const { return shows_ && shape_->readers != 0; }
  std::byte* place_of(uint32_t source) const;  // of what comes from it, in the output
  void fail(Status status);
  // The lowest peer that has not gone past so many slices of all calls, -1 if none.
  int still_before(uint32_t sequence) const;
  // False: a source has withdrawn what it showed.
  bool reduce_slice(uint64_t offset, size_t bytes);
  void reduce_to(std::byte* out, uint32_t n, size_t bytes);
  bool copy_slice(uint64_t offset, size_t bytes);

  const Tuning tuning_;
  SharedCells& cells_;
  FlagLines flags_;
  SingleCopy single_copy_;
  SliceWriter& writer_;
  uint32_t nranks_;
  uint32_t self_;
  size_t ring_;  // where it begins in a rank's cells

  OneHopCall call_;
  const OneHopShape* shape_ = nullptr;  // the call's
  bool done_ = true;
  bool asks_ = false;                // whether single copy is possible is not known yet
  bool may_show_ = false;            // ranks may let others copy from their input
  uint32_t before_ = 0, after_ = 0;  // slices of all calls, without this one and with it
  uint32_t published_ = 0, taken_ = 0;
  bool own_left_ = false;
  bool shows_ = false;   // the others copy from this rank's input
  uint32_t streak_ = 0;  // slices that were there at the first look
  Status failure_;
  // Bytes of the ring, counted on and on: where the last slices begin, and where the next does.
  std::vector<uint64_t> begins_;
  uint64_t next_begin_ = 0;
  uint32_t placed_ = 0;  // slices of all calls that have a place, but for those in lines
  uint32_t read_ = 0;    // slices of all calls that all have gone past, as far as known
  // Of each source: the part that is for this rank where it lies in the source's input, null where
  // it comes in slices; and how much of it was copied, in bytes from its beginning.
  struct Shown {
    const std::byte* part = nullptr;
    uint64_t copied = 0;
  };
  std::vector<Shown> shown_;
  std::vector<std::byte> landed_;  // what was copied to be reduced: a slice of each source
  std::vector<const void*> operands_;
  Transfers transfers_;
};

}  // namespace tutti::shared
