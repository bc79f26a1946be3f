// One-hop collectives over shared cells: a rank that has something for others publishes it, in
// slices, and every rank takes what is for it from where it lies. Implements, bit for bit:
//   allgather, alltoall, reduce_scatter, scan, exscan  direct
//   broadcast, gather, scatter, reduce                 flat
//
// A rank's slices lie in a ring, calls one after the other. All ranks know how many slices a call
// has, also ranks that take no part in it, so slice s, counted over all calls, has the same flag
// line in every rank; that line says where in the ring its rank has put it. Every rank posts a
// credit, the number of slices that it has read or skipped; a place is written again once the
// credits of all ranks cover its slice. So a rank may leave a call before others enter it, and runs
// ahead as far as the ring and its flags reach. How much of the ring a rank uses it decides for
// itself, call by call: all of it, so that the slices of a writer that is far ahead have left its
// own cache, or a part that stays there. A short part travels in the lines of its flags: a reader
// has it one transfer after it was written, where a flag and then the ring take two.
//
// A long input may be copied from where it is, if its rank's call says so: the rank then posts the
// address in the line of the first slice, and stays in the call until all have copied from there
// (single_copy.h). Each rank decides this for itself, call by call; the call has the same number of
// slices either way.
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
  const OneHopShape* shape = nullptr;  // this and the next must outlive the call
  const Kernels* kernels = nullptr;
  const std::byte* input = nullptr;
  // Between the two pointers, so that the compiler does not copy both with one load: they were just
  // stored as two words, and a wider load defeats store-to-load forwarding (as expensive as twenty
  // instructions).
  uint32_t digest = 0;
  std::byte* output = nullptr;
  SliceStores stores = SliceStores::library;
  bool shows = false;   // this rank lets the others copy from its input where they can
  bool narrow = false;  // slices use a part of the ring that stays in this core's cache
};

class OneHop {
 public:
  // `link` must have cells; `writer` and `single_copy` outlive this.
  OneHop(slots::SlotLink& link, SliceWriter& writer, SingleCopy& single_copy, const Tuning& tuning);

  // Inline, so that `call` stays in registers.
  void start(const OneHopCall& call) {
    call_ = call;
    shape_ = call.shape;
    start_next();
  }
  // Moves as far as the peers' flags allow and never blocks. Returns whether anything moved.
  bool advance();
  bool done() const { return done_; }
  // Whether `rank` has published its first slice in the call that will be started next.
  bool has_begun_next(uint32_t rank, uint32_t digest) const;
  // Whether the call, once done, has failed, and how. The link knows of all other failures.
  const Status& failure() const { return failure_; }
  // The call has failed: takes back where this rank's input lies, if that was posted.
  void withdraw();
  // The lowest peer that the call waits for, -1 if none.
  int waits_for();
  int needs() { return waits_for(); }
  // Of all completed calls: what their schedules send and receive.
  const Transfers& transfers() const { return transfers_; }

 private:
  void start_next();
  // Decides whether ranks may copy from each other's input. To be called once answer() is known.
  void choose_way();
  void begin();
  // Decides whether the others copy from this rank's input in this call.
  bool shows_input();
  void copy_own_block();
  bool publish_slice();
  template <class Copy>
  void write_parts(std::byte* to, const std::byte* from, size_t bytes, Copy&& copy) const;
  bool take_slice();
  bool has_room();
  bool fits(uint32_t sequence) const;
  // The same, after reading the peers' credits.
  bool fits_by_now(uint32_t sequence);
  void ask_line_back(uint32_t sequence) const;
  bool there(uint32_t source, uint32_t slice);
  // The flag of a slice, with its bytes where they travel in the flag's line.
  slots::FlagLine& line_at(uint32_t rank, uint32_t sequence) const {
    return flags_.at(rank, line_of(sequence));
  }
  // How much of the ring a narrow call uses.
  uint64_t narrow_bytes() const;
  // Where the next slice would begin.
  uint64_t next_place() const;
  // Gives slice `sequence` that place, and those before it that have none an empty one.
  void set_place(uint32_t sequence, uint64_t begin);
  uint32_t index_of(uint32_t sequence) const { return sequence & (tuning_.ring_slices - 1); }
  uint32_t line_of(uint32_t sequence) const { return line::one_hop + index_of(sequence); }
  // What the line of a slice that does not travel in it says.
  struct Whereabouts {
    const std::byte* input = nullptr;  // copy from there, at that rank; null: from the ring
    uint64_t offset = 0;               // there
  };
  void tell(slots::FlagLine& line, const Whereabouts& whereabouts) const;
  Whereabouts told(const slots::FlagLine& line) const;
  // The first bytes of this rank's part of a slice.
  const std::byte* part_of(uint32_t source, uint32_t slice, size_t bytes) const;
  void fetch_next() const;
  void fetch_lines() const;
  void note_shown();
  bool shows(size_t i) const { return may_show_ && shown_[i].part != nullptr; }
  bool has_copied_slice() const;
  bool copy_shown(size_t i);
  bool copy_from(size_t i, uint64_t offset, std::byte* to, size_t bytes);
  const std::byte* fetched(size_t i, uint64_t offset, size_t bytes);
  bool is_read() const { return shows_ && shape_->readers != 0; }
  std::byte* place_of(uint32_t source) const;  // in the output, of what comes from `source`
  void fail(Status status);
  // The lowest peer whose credit is less than so many slices of all calls, -1 if none.
  int still_before(uint32_t sequence) const;
  // False: a source has withdrawn what it showed.
  bool reduce_slice(uint64_t offset, size_t bytes);
  void reduce_to(std::byte* out, uint32_t n, size_t bytes);
  bool copy_slice(uint64_t offset, size_t bytes);

  const Tuning tuning_;
  SharedCells& cells_;
  FlagLines flags_;
  SingleCopy& single_copy_;
  SliceWriter& writer_;
  uint32_t nranks_;
  uint32_t self_;
  size_t ring_;          // its offset into a rank's cells
  const size_t narrow_;  // bytes of it that narrow calls use at most

  OneHopCall call_;
  const OneHopShape* shape_ = nullptr;  // the call's
  bool done_ = true;
  bool asks_ = false;                // it is not known yet whether single copy is possible
  bool may_show_ = false;            // ranks may let others copy from their input
  uint32_t before_ = 0, after_ = 0;  // slices of all calls, without this call's and with them
  uint32_t published_ = 0, taken_ = 0;
  bool own_left_ = false;
  bool shows_ = false;   // the others copy from this rank's input
  uint32_t streak_ = 0;  // slices that were there at the first look
  Status failure_;
  // Positions in the own ring, in bytes and counted without wrapping: where the last slices begin,
  // and where the last one ends.
  std::vector<uint64_t> begins_;
  uint64_t next_begin_ = 0;
  uint32_t placed_ = 0;  // slices of all calls up to the last one that has a place
  uint32_t read_ = 0;    // the lowest credit of all ranks, as last read
  // Of each source: the part for this rank, where it lies in the source's input (null where it
  // comes in slices), and how many of its bytes were copied.
  struct Shown {
    const std::byte* part = nullptr;
    uint64_t copied = 0;
  };
  std::vector<Shown> shown_;
  std::vector<std::byte> landed_;  // copied for a reduction: a slice of each source
  std::vector<const void*> operands_;
  Transfers transfers_;
};

}  // namespace tutti::shared
