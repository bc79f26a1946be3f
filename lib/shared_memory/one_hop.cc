#include "lib/shared_memory/one_hop.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "algorithms/patterns.h"
#include "lib/base/cache.h"
#include "lib/reduce/copy.h"

namespace tutti::shared {

namespace {

constexpr uint32_t most_lag = 1u << 30;  // slices
constexpr uint64_t narrow_slices = 8;    // as many as a trial's calls that are not timed

// A small part of a core's own cache, beside which the vectors have room; at least two slices.
size_t most_narrow_bytes(const Tuning& tuning) {
  const auto wanted = size_t(tuning.narrow_share * double(tuning.core_cache()));
  const size_t least = std::min<size_t>(2 * tuning.one_hop_slice_bytes, tuning.ring_bytes);
  return std::clamp<size_t>(wanted, least, tuning.ring_bytes);
}

}  // namespace

OneHop::OneHop(slots::SlotLink& link, const Regions& regions, SliceWriter& writer,
               SingleCopy& single_copy, const Tuning& tuning)
    : tuning_(tuning),
      cells_(*link.cells()),
      flags_(link),
      regions_(regions),
      access_(flags_, regions),
      single_copy_(single_copy),
      writer_(writer),
      nranks_(cells_.nranks()),
      self_(cells_.rank()),
      ring_(cells_.bytes() - tuning_.ring_bytes),
      narrow_(most_narrow_bytes(tuning_)),
      begins_(tuning_.ring_slices),
      shown_(nranks_),
      operands_(nranks_) {}

void OneHop::start_next() {
  before_ = after_;
  done_ = asks_ = may_copy_ = may_show_ = fetched_lines_ = false;
  mine_ = {};
  writer_.begin(call_.stores);
  // An allreduce goes other ways (or_direct.h). Lines with a part say no whereabouts.
  if (!shape_->in_line && shape_->goal.collective() != Collective::allreduce) {
    may_show_ = shape_->part_bytes > tuning_.staged_bytes;
    if (shape_->part_bytes >= tuning_.single_copy_bytes) [[unlikely]] {
      asks_ = single_copy_.answer() == SingleCopy::Answer::unknown;
      if (!asks_) choose_way();
    }
  }
  if (!asks_) begin();
}

void OneHop::choose_way() {
  may_copy_ = single_copy_.answer() == SingleCopy::Answer::yes;
  may_show_ = may_show_ || may_copy_;
  if (!may_copy_ || !shape_->combines) return;
  const size_t bytes = shape_->sources.size() * shape_->slice_bytes;
  try {
    if (landed_.size() < bytes) landed_.resize(bytes);
  } catch (const std::bad_alloc&) {
    fail({TUTTI_NO_MEMORY, "cannot allocate " + std::to_string(bytes) + " bytes to reduce from"});
  }
}

void OneHop::begin() {
  after_ = before_ + shape_->slices;
  // A rank that only reads has placed nothing since long ago: the distance must not wrap.
  if (before_ - placed_ > most_lag) [[unlikely]]
    placed_ = before_ - tuning_.ring_slices;
  published_ = shape_->readers.empty() ? shape_->slices : 0;
  taken_ = shape_->sources.empty() ? shape_->slices : 0;
  own_left_ = shape_->has_own_block;
  if (may_show_ && published_ != shape_->slices) mine_ = show_input();
  if (taken_ != shape_->slices) return;
  // A rank that takes nothing skips all slices, and must not hold up the others.
  if (shape_->readers.empty()) {
    flags_.post(line::one_hop_read, after_, 0);
  } else {
    flags_.set(line::one_hop_read, after_, 0);
  }
}

OneHop::Whereabouts OneHop::show_input() {
  if (overwrites_input()) return {};
  // Such a way is one of the ring, which a trial compares with those that are not.
  const bool says_how_to_write = call_.narrow || call_.stores != SliceStores::library;
  Place place;
  if (shape_->part_bytes > tuning_.staged_bytes && !call_.staged && !says_how_to_write &&
      regions_.find(call_.input, input_bytes(), &place)) {
    const Edges edges = regions_.edges_of(shape_->element_size);
    if (edges.head + edges.tail < input_bytes()) {
      regions_.copy_edges(self_, edges, call_.input, input_bytes());
      return {place.offset, place.region, In::region};
    }
  }
  if (may_copy_ && (call_.shows || single_copy_.always()))
    return {reinterpret_cast<uintptr_t>(call_.input), 0, In::process};
  return {};
}

// Whether this rank's output overwrites what others have yet to read.
bool OneHop::overwrites_input() const {
  // Where blocks are gathered, only the own block of the output may overlap the input, and it
  // stays.
  const bool gathers = shape_->gets_many && !shape_->separate_parts;
  if (gathers || shape_->sources.empty()) return false;
  const uint64_t written = shape_->combines ? shape_->part_bytes : nranks_ * shape_->part_bytes;
  return call_.input < call_.output + written && call_.output < call_.input + input_bytes();
}

void OneHop::fail(Status status) {
  failure_ = std::move(status);
  done_ = true;
}

void OneHop::withdraw() {
  let_go();
  access_.end();  // an operator may have thrown while this rank read
  // Else the line may hold a slice of an earlier call, which somebody has yet to read.
  if (!shows() || published_ == 0) return;
  flags_.clear(line_of(before_));
  access_.wait_for_others(after_, call_.digest, [](uint32_t) { return false; });
}

// The call has ended: regions that the program has removed here meanwhile may be unmapped.
void OneHop::let_go() {
  if (std::exchange(mapped_, false)) {
    for (Shown& one : shown_) one.owner.reset();
  }
}

// Of short slices few: else calls would be timed while the others' caches have long given up what
// they are about to write, and settle on a way that is slow when they have come around.
uint64_t OneHop::narrow_bytes() const {
  return std::min<uint64_t>(narrow_, narrow_slices * shape_->slice_in_ring());
}

uint64_t OneHop::next_place() const {
  const uint64_t ring = tuning_.ring_bytes, at = next_begin_ & (ring - 1);
  const uint64_t end = call_.narrow ? narrow_bytes() : ring;
  // No slice wraps around the end. What is left out counts as used.
  return at + shape_->slice_in_ring() <= end ? next_begin_ : next_begin_ + ring - at;
}

void OneHop::set_place(uint32_t sequence, uint64_t begin) {
  if (int32_t(sequence - placed_) > int32_t(tuning_.ring_slices))
    placed_ = sequence - tuning_.ring_slices;
  for (; placed_ != sequence; ++placed_) begins_[index_of(placed_)] = next_begin_;
  begins_[index_of(placed_++)] = begin;
  next_begin_ = begin + shape_->slice_in_ring();
}

void OneHop::tell(slots::FlagLine& line, const Whereabouts& whereabouts) const {
  slots::will_write(line.payload, sizeof(whereabouts));
  std::memcpy(line.payload, &whereabouts, sizeof(whereabouts));
}

OneHop::Whereabouts OneHop::told(const slots::FlagLine& line) const {
  Whereabouts whereabouts;
  slots::will_read(line.payload, sizeof(whereabouts));
  std::memcpy(&whereabouts, line.payload, sizeof(whereabouts));
  return whereabouts;
}

bool OneHop::fits(uint32_t sequence) const {
  if (sequence - read_ >= tuning_.ring_slices) return false;
  if (shape_->in_line || int32_t(read_ - placed_) >= 0) return true;  // none in the ring is unread
  return next_place() + shape_->slice_in_ring() - begins_[index_of(read_)] <= tuning_.ring_bytes;
}

bool OneHop::has_room() {
  const uint32_t next = before_ + published_;
  return fits(next) || fits_by_now(next);
}

bool OneHop::fits_by_now(uint32_t sequence) {
  read_ = before_ + std::min(taken_, published_);
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank == self_) continue;
    const uint32_t theirs = flag_sequence(flags_.flag(rank, line::one_hop_read));
    if (int32_t(theirs - read_) < 0) read_ = theirs;
  }
  return fits(sequence);
}

// Writes a slice of each part, beginning at `from` in the first part.
template <class Copy>
void OneHop::write_parts(std::byte* to, const std::byte* from, size_t bytes, Copy&& copy) const {
  if (!shape_->separate_parts) return copy(to, from, bytes);
  for (uint32_t reader = 0; reader < nranks_; ++reader, from += shape_->part_bytes) {
    if (reader != self_) copy(to + peer_position(self_, reader) * shape_->stride, from, bytes);
  }
}

bool OneHop::publish_slice() {
  if (!has_room()) return false;
  const uint32_t sequence = before_ + published_;
  const uint64_t offset = published_ * shape_->slice_bytes;
  const size_t bytes = std::min(shape_->slice_bytes, shape_->part_bytes - offset);
  ++published_;
  slots::FlagLine& line = line_at(self_, sequence);
  if (shape_->in_line) {
    slots::will_write(line.payload, shape_->slice_in_ring());
    write_parts(line.payload, call_.input + offset, bytes,
                [](std::byte* to, const std::byte* from, size_t bytes) {
                  slots::copy_short(to, from, bytes);
                });
  } else if (shows()) {
    tell(line, mine_);
  } else {
    const uint64_t place = next_place(), at = place & (tuning_.ring_bytes - 1);
    set_place(sequence, place);
    tell(line, {.at = at});
    write_parts(cells_.data(self_) + ring_ + at, call_.input + offset, bytes,
                [this](std::byte* to, const std::byte* from, size_t bytes) {
                  slots::will_write(to, bytes);
                  writer_.copy(to, from, bytes);
                });
  }
  if (shape_->in_line && published_ != shape_->slices) {
    flags_.set(line_of(sequence), sequence + 1, call_.digest);
  } else {
    flags_.post(line_of(sequence), sequence + 1, call_.digest);
  }
  if (shows()) published_ = shape_->slices;
  if (!shape_->in_line) {
    if (published_ == shape_->slices) prefetch_next();
  } else if (shape_->sources.empty()) {
    prefetch_line(sequence + shape_->slices + 3);
  }
  return true;
}

// Prefetches for writing what a reader's cache has held since the ring's last pass; the transfer
// overlaps with the writing of other lines (broadcast of 32 B, 2 ranks: 92 -> 89 ns). Not where
// this rank takes as well: it waits for lines of its own sources, which come later then.
void OneHop::prefetch_line(uint32_t sequence) const {
  if (sequence - read_ < tuning_.ring_slices) flags_.prefetch_for_write(line_of(sequence));
}

// Prefetches for writing where the next call's slices, and the flag of the first, will be written
// if it is like this one; where this rank takes as well, of short calls only.
void OneHop::prefetch_next() const {
  const uint64_t bytes = shape_->slices * shape_->slice_in_ring();
  if (shows() || !writer_.prefetches_next(bytes, !shape_->sources.empty())) return;
  prefetch_line(after_);
  const uint64_t at = next_place() & (tuning_.ring_bytes - 1);
  const uint64_t end = call_.narrow ? narrow_bytes() : tuning_.ring_bytes;
  slots::prefetch_for_write(cells_.data(self_) + ring_ + at, std::min(bytes, end - at));
}

bool OneHop::has_begun_next(uint32_t rank, uint32_t digest) const {
  return flags_.posted(rank, line_of(after_), after_ + 1, digest);
}

bool OneHop::there(uint32_t source, uint32_t slice) {
  const uint32_t sequence = before_ + slice;
  return flags_.posted(source, line_of(sequence), sequence + 1, call_.digest);
}

const std::byte* OneHop::part_of(uint32_t source, uint32_t slice, size_t bytes) const {
  const uint32_t sequence = before_ + slice;
  const slots::FlagLine& line = line_at(source, sequence);
  const std::byte* from = line.payload;
  if (!shape_->in_line) {
    // A peer's word is used as an index only within bounds.
    const uint64_t most = tuning_.ring_bytes - shape_->slice_in_ring();
    from = cells_.data(source) + ring_ + std::min(told(line).at, most);
  }
  if (shape_->separate_parts) from += peer_position(source, self_) * shape_->stride;
  slots::will_read(from, bytes);
  return from;
}

bool OneHop::take_slice() {
  // The output may overlap the own input, so the input must be published first.
  if (!shape_->readers.empty() && taken_ == published_) return false;
  if (taken_ == 0 && shape_->in_line && shape_->slices != 1 && !fetched_lines_) fetch_lines();
  for (size_t i = 0; i < shape_->sources.size(); ++i) {
    if (is_there(i)) continue;
    streak_ = 0;
    return false;
  }
  if (may_show_ && taken_ == 0 && !note_shown()) return false;
  const uint64_t offset = taken_ * shape_->slice_bytes;
  const size_t bytes = std::min(shape_->slice_bytes, shape_->part_bytes - offset);
  if (!(shape_->combines ? reduce_slice(offset, bytes) : copy_slice(offset, bytes))) {
    return false;
  }
  do {
    ++taken_;
  } while (has_copied_slice());
  if (shape_->in_line && taken_ != shape_->slices) return true;  // all lines are read as one
  // Others wait for this credit when they run out of room, or when their input is copied from.
  flags_.post(line::one_hop_read, before_ + taken_, 0);
  if (++streak_ > 1) fetch_next();
  return true;
}

// So that all lines of the call are on their way at once, when the first one comes. A rank that
// only reads does so at each look. One that has published, whose sources are about to write, does
// so once where they are many: else they would lose lines again and again (at each look, allgather
// of 2 ranks: 128 B 0.95 of the time, 512 B 1.13).
void OneHop::fetch_lines() {
  fetched_lines_ = !shape_->readers.empty() && shape_->slices > tuning_.refetched_lines;
  for (const uint32_t source : shape_->sources) {
    for (uint32_t slice = 1; slice < shape_->slices; ++slice)
      __builtin_prefetch(&line_at(source, before_ + slice));
  }
}

// Notes which sources let others read their input where it is: the line of the first slice says
// where.
bool OneHop::note_shown() {
  const uint64_t from = shape_->separate_parts ? self_ * shape_->part_bytes : 0;
  for (size_t i = 0; i < shape_->sources.size(); ++i) {
    const uint32_t source = shape_->sources[i];
    const Whereabouts theirs = told(line_at(source, before_));
    Shown& shown = shown_[i];
    shown.in = theirs.in;
    shown.copied = 0;
    if (theirs.in == In::process) {
      shown.part = reinterpret_cast<const std::byte*>(theirs.at + from);
    } else if (theirs.in == In::region) {
      const std::byte* const vector =
          regions_.at(source, {theirs.region, theirs.at}, input_bytes(), &shown.owner);
      if (vector == nullptr) {
        fail(freed_here(source, self_));
        return false;
      }
      const Edges edges = regions_.edges_of(shape_->element_size);
      shown.mapped = MappedPart(regions_, source, edges, vector, input_bytes(), from);
      mapped_ = true;
    }
  }
  return true;
}

// Whether the next slice was copied together with the ones before.
bool OneHop::has_copied_slice() const {
  if (!may_show_ || taken_ == shape_->slices || (!shape_->readers.empty() && taken_ >= published_))
    return false;
  const uint64_t end = std::min((taken_ + 1) * shape_->slice_bytes, shape_->part_bytes);
  for (size_t i = 0; i < shape_->sources.size(); ++i) {
    if (shown_[i].copied < end) return false;
  }
  return true;
}

// To be called only where the sources are ahead: else the prefetch would take lines away from them
// that they are still writing.
void OneHop::fetch_next() const {
  const uint32_t next = before_ + taken_;
  for (const uint32_t source : shape_->sources) {
    __builtin_prefetch(&line_at(source, next + std::min(streak_ / 4, 3u)));
  }
}

std::byte* OneHop::place_of(uint32_t source) const {
  return call_.output + (shape_->gets_many ? source * shape_->part_bytes : 0);
}

void OneHop::fetch(std::byte* to, const std::byte* from, size_t bytes) const {
  fetch_bytes(to, from, bytes, shape_->streams, tuning_.fetch_pages, tuning_.fetch_ahead_bytes);
}

bool OneHop::copy_slice(uint64_t offset, size_t bytes) {
  for (size_t i = 0; i < shape_->sources.size(); ++i) {
    const uint32_t source = shape_->sources[i];
    std::byte* const to = place_of(source) + offset;
    if (shape_->in_line) {
      slots::copy_short(to, part_of(source, taken_, bytes), bytes);
    } else if (!is_shown(i)) {
      fetch(to, part_of(source, taken_, bytes), bytes);
    } else {
      while (shown_[i].copied < offset + bytes) {
        if (!copy_shown(i)) return false;
      }
    }
  }
  return true;
}

// Copies the next piece of source `i`'s input: mostly many slices at once, also ones that this rank
// has yet to publish itself. They are not overwritten: what is copied overlaps the own input only
// where that is aside (Call::input_aside), or is the own block.
bool OneHop::copy_shown(size_t i) {
  uint64_t& copied = shown_[i].copied;
  const bool mapped = shown_[i].in == In::region;
  const size_t most = mapped ? tuning_.direct_slice_bytes : tuning_.single_copy_piece_bytes;
  const size_t bytes = std::min<uint64_t>(most, shape_->part_bytes - copied);
  std::byte* const to = place_of(shape_->sources[i]) + copied;
  if (!(mapped ? copy_mapped(i, copied, to, bytes) : copy_from(i, copied, to, bytes))) return false;
  copied += bytes;
  return true;
}

bool OneHop::copy_mapped(size_t i, uint64_t offset, std::byte* to, size_t bytes) {
  if (!enter_mapped()) return false;
  while (bytes != 0) {
    size_t now = bytes;
    const std::byte* const from = shown_[i].mapped.at(offset, &now);
    slots::will_read(from, now);
    fetch(to, from, now);
    offset += now;
    to += now;
    bytes -= now;
  }
  return leave_mapped();
}

bool OneHop::enter_mapped() {
  return !mapped_ || access_.begin(after_, call_.digest, [this] { return still_mapped(); });
}

bool OneHop::leave_mapped() {
  if (!mapped_) return true;
  access_.end();
  slots::fence(std::memory_order_acquire);  // orders the reads before the look at the flags
  return still_mapped();
}

bool OneHop::still_mapped() {
  for (size_t i = 0; i < shape_->sources.size(); ++i) {
    if (shown_[i].in == In::region && !there(shape_->sources[i], 0)) return false;
  }
  return true;
}

// What was copied is valid only if source `i` has not withdrawn its input meanwhile.
bool OneHop::copy_from(size_t i, uint64_t offset, std::byte* to, size_t bytes) {
  const uint32_t source = shape_->sources[i];
  const int error = single_copy_.read(source, shown_[i].part + offset, to, bytes);
  slots::fence(std::memory_order_acquire);  // orders the copy before the look at the flag
  if (!there(source, 0)) return false;
  slots::will_read(shown_[i].part + offset, bytes);
  if (error == 0) return true;
  if (error != ESRCH) {  // else the link finds that it died
    fail({TUTTI_INVALID,
          "cannot read the input of rank " + std::to_string(source) + ": " + std::strerror(error),
          int(source)});
  }
  return false;
}

int OneHop::still_before(uint32_t sequence) const {
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank != self_ && is_before(rank, sequence)) return int(rank);
  }
  return -1;
}

int OneHop::still_reading() const {
  for (const uint32_t rank : shape_->readers) {
    if (is_before(rank, after_)) return int(rank);
  }
  return -1;
}

// Where source `i`'s part can be read from `offset` on: in the ring, where it is mapped, or in
// landed_ after a copy; null where the source has withdrawn or the copy failed. *bytes: how many
// are wanted, and how many lie there.
const std::byte* OneHop::fetched(size_t i, uint64_t offset, size_t* bytes) {
  const uint64_t in_slice = offset - taken_ * shape_->slice_bytes;
  if (!is_shown(i)) return part_of(shape_->sources[i], taken_, in_slice + *bytes) + in_slice;
  if (shown_[i].in == In::region) return shown_[i].mapped.at(offset, bytes);
  std::byte* const to = landed_.data() + i * shape_->slice_bytes;
  return copy_from(i, offset, to, *bytes) ? to : nullptr;
}

bool OneHop::reduce_slice(uint64_t offset, size_t bytes) {
  if (!enter_mapped()) return false;
  size_t now = bytes;
  for (; bytes != 0 && reduce_piece(offset, &now); now = bytes) {
    offset += now;
    bytes -= now;
  }
  return leave_mapped() && bytes == 0;
}

// Of *bytes as many as lie in one stretch at every source.
bool OneHop::reduce_piece(uint64_t offset, size_t* length) {
  const uint32_t block = shape_->goal.block(self_, self_);
  uint32_t n = 0;
  size_t i = 0;
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (!shape_->goal.combines(rank, self_, block)) continue;
    operands_[n] = rank == self_ ? call_.input + block * shape_->part_bytes + offset
                                 : fetched(i++, offset, length);
    if (operands_[n++] == nullptr) return false;
  }
  const size_t bytes = *length;
  for (i = 0; mapped_ && i < shape_->sources.size(); ++i) {
    size_t all = bytes;
    if (shown_[i].in == In::region) slots::will_read(shown_[i].mapped.at(offset, &all), bytes);
  }
  if (!shape_->streams) {
    reduce_to(call_.output + offset, n, bytes);
    return true;
  }
  alignas(line_bytes) std::byte piece[most_streamed_piece_bytes];
  const size_t most = whole_granules(tuning_.streamed_piece_bytes, shape_->element_size);
  for (size_t done = 0; done < bytes; done += most) {
    const size_t now = std::min(most, bytes - done);
    reduce_to(piece, n, now);
    stream_copy(call_.output + offset + done, piece, now);
    for (uint32_t i = 0; i < n; ++i) {
      operands_[i] = static_cast<const std::byte*>(operands_[i]) + now;
    }
  }
  return true;
}

// Reduces the first n of operands_.
void OneHop::reduce_to(std::byte* out, uint32_t n, size_t bytes) {
  call_.kernels->combine(out, operands_.data(), n, bytes / shape_->element_size);
}

void OneHop::copy_own_block() {
  own_left_ = false;
  const std::byte* const from = call_.input + shape_->own_from;
  std::byte* const to = call_.output + shape_->own_to;
  if (from == to) return;
  copy_bytes(to, from, shape_->part_bytes, shape_->exceeds_cache);
  if (shape_->exceeds_cache) stream_fence();
}

bool OneHop::advance() {
  if (asks_) {
    if (single_copy_.answer() == SingleCopy::Answer::unknown) return false;
    asks_ = false;
    choose_way();
    begin();
  }
  if (done_) return true;  // it has failed
  // Slices in lines are so short that all go at once.
  const auto some = [this](uint32_t& slices, bool (OneHop::*step)()) {
    bool moved = false;
    while (slices != shape_->slices && (this->*step)()) {
      moved = true;
      if (!shape_->in_line) break;
    }
    return moved;
  };
  const bool published = some(published_, &OneHop::publish_slice);
  if (own_left_) copy_own_block();  // while the peers look at what was published
  const bool taken = some(taken_, &OneHop::take_slice);
  if (done_) return true;
  done_ =
      published_ == shape_->slices && taken_ == shape_->slices && (!shows() || still_reading() < 0);
  if (done_) {
    direct_calls_ += mapped_ || mine_.in == In::region;
    let_go();
    if (shape_->streams) stream_fence();
    transfers_.sent(shape_->readers.size(), shape_->readers.size() * shape_->part_bytes);
    transfers_.received(shape_->sources.size(), shape_->sources.size() * shape_->part_bytes);
  }
  return published || taken;
}

int OneHop::waits_for() {
  if (done_) return -1;
  if (asks_) return single_copy_.waits_for();
  for (size_t i = 0; taken_ < shape_->slices && i < shape_->sources.size(); ++i) {
    if (!is_there(i)) return int(shape_->sources[i]);
  }
  if (published_ != shape_->slices) return has_room() ? -1 : still_before(read_ + 1);
  return shows() ? still_reading() : -1;
}

}  // namespace tutti::shared
