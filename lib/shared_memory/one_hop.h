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
// A long input may be read where it is: in memory that the others have mapped (regions.h), unless
// the call says that it is staged, or how slices are written; in other memory if the call says so,
// by the kernel (single_copy.h). Its rank then posts in the line of the first slice where that is,
// and stays in the call until its readers have read there. Each rank decides this for itself, call
// by call; the call has the same number of slices either way. A rank whose call fails withdraws
// what it posted, and what others have read since is not used: each looks again after it has read.
// Where ranks are threads it waits for those that are reading, which takes bounded time: its memory
// has no mapping that would outlive it.
#pragma once

#include <vector>

#include "lib/base/transfers.h"
#include "lib/reduce/reduce.h"
#include "lib/shared_memory/flag_lines.h"
#include "lib/shared_memory/mapped_part.h"
#include "lib/shared_memory/one_hop_shape.h"
#include "lib/shared_memory/single_copy.h"
#include "lib/shared_memory/slice_writer.h"
#include "lib/shared_memory/vector_access.h"

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
  bool staged = false;  // this rank's input goes through the ring also where others have it mapped
};

class OneHop {
 public:
  // `link` must have cells; the next three outlive this.
  OneHop(slots::SlotLink& link, const Regions& regions, SliceWriter& writer,
         SingleCopy& single_copy, const Tuning& tuning);

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
  // The call has failed: takes back where this rank's input lies, if that was posted. Threads: once
  // this returns, no peer reads it any more.
  void withdraw();
  // The lowest peer that the call waits for, -1 if none.
  int waits_for();
  int needs() { return waits_for(); }
  // Of all completed calls: what their schedules send and receive.
  const Transfers& transfers() const { return transfers_; }
  // Those in which this rank has read mapped input, or its own was read so.
  uint64_t direct_calls() const { return direct_calls_; }

 private:
  // Where the others find a rank's input.
  enum class In : uint32_t { ring, region, process };
  // What the line of a slice that does not travel in it says; of an input that is not in the ring,
  // the line of the first one.
  struct Whereabouts {
    uint64_t at = 0;  // the offset in the ring, or in the rank's part of the region; the address
    uint64_t region = 0;
    In in = In::ring;
  };

  void start_next();
  // Decides whether ranks may copy from each other's input. To be called once answer() is known.
  void choose_way();
  void begin();
  // Decides where the others read this rank's input in this call.
  Whereabouts show_input();
  bool overwrites_input() const;
  uint64_t input_bytes() const {
    return shape_->separate_parts ? nranks_ * shape_->part_bytes : shape_->part_bytes;
  }
  void copy_own_block();
  bool publish_slice();
  template <class Copy>
  void write_parts(std::byte* to, const std::byte* from, size_t bytes, Copy&& copy) const;
  bool take_slice();
  bool has_room();
  bool fits(uint32_t sequence) const;
  // The same, after reading the peers' credits.
  bool fits_by_now(uint32_t sequence);
  void prefetch_line(uint32_t sequence) const;
  void prefetch_next() const;
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
  void tell(slots::FlagLine& line, const Whereabouts& whereabouts) const;
  Whereabouts told(const slots::FlagLine& line) const;
  // The first bytes of this rank's part of a slice.
  const std::byte* part_of(uint32_t source, uint32_t slice, size_t bytes) const;
  void fetch_next() const;
  void fetch_lines();
  bool note_shown();
  // After note_shown().
  bool is_shown(size_t i) const { return may_show_ && shown_[i].in != In::ring; }
  // Whether the next slice of source `i` can be read.
  bool is_there(size_t i) {
    return there(shape_->sources[i], taken_ != 0 && is_shown(i) ? 0 : taken_);
  }
  bool has_copied_slice() const;
  bool copy_shown(size_t i);
  bool copy_from(size_t i, uint64_t offset, std::byte* to, size_t bytes);
  bool copy_mapped(size_t i, uint64_t offset, std::byte* to, size_t bytes);
  // To be called before what is mapped is read, and after. False: a source has withdrawn it.
  bool enter_mapped();
  bool leave_mapped();
  bool still_mapped();
  const std::byte* fetched(size_t i, uint64_t offset, size_t* bytes);
  bool shows() const { return mine_.in != In::ring; }
  void let_go();
  std::byte* place_of(uint32_t source) const;  // in the output, of what comes from `source`
  void fail(Status status);
  bool is_before(uint32_t rank, uint32_t sequence) const {
    return int32_t(flag_sequence(flags_.flag(rank, line::one_hop_read)) - sequence) < 0;
  }
  // The lowest peer whose credit is less than so many slices of all calls, -1 if none.
  int still_before(uint32_t sequence) const;
  // The lowest rank that has yet to read this one's input, -1 if none.
  int still_reading() const;
  // False: a source has withdrawn what it showed.
  bool reduce_slice(uint64_t offset, size_t bytes);
  bool reduce_piece(uint64_t offset, size_t* bytes);
  void reduce_to(std::byte* out, uint32_t n, size_t bytes);
  bool copy_slice(uint64_t offset, size_t bytes);
  void fetch(std::byte* to, const std::byte* from, size_t bytes) const;

  const Tuning tuning_;
  SharedCells& cells_;
  FlagLines flags_;
  const Regions& regions_;
  VectorAccess access_;
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
  bool may_copy_ = false;            // ranks may let the kernel copy from their input
  bool may_show_ = false;            // ranks may let others read their input where it is
  uint32_t before_ = 0, after_ = 0;  // slices of all calls, without this call's and with them
  uint32_t published_ = 0, taken_ = 0;
  bool own_left_ = false;
  bool fetched_lines_ = false;  // and need not again
  Whereabouts mine_;            // where the others read this rank's input
  bool mapped_ = false;         // this rank reads some
  uint32_t streak_ = 0;         // slices that were there at the first look
  Status failure_;
  // Positions in the own ring, in bytes and counted without wrapping: where the last slices begin,
  // and where the last one ends.
  std::vector<uint64_t> begins_;
  uint64_t next_begin_ = 0;
  uint32_t placed_ = 0;  // slices of all calls up to the last one that has a place
  uint32_t read_ = 0;    // the lowest credit of all ranks, as last read
  // Of each source.
  struct Shown {
    In in = In::ring;
    const std::byte* part = nullptr;  // that for this rank, at an address of the source's process
    MappedPart mapped;                // the same in this process
    std::shared_ptr<void> owner;      // of that mapping
    uint64_t copied = 0;              // bytes so far
  };
  std::vector<Shown> shown_;
  std::vector<std::byte> landed_;  // copied for a reduction: a slice of each source
  std::vector<const void*> operands_;
  uint64_t direct_calls_ = 0;
  Transfers transfers_;
};

}  // namespace tutti::shared
