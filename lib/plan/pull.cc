#include "lib/plan/pull.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "algorithms/patterns.h"
#include "lib/cache.h"
#include "lib/reduce/copy.h"

namespace tutti::plan {

namespace {

constexpr size_t line_bytes = shm::line_bytes;
constexpr size_t inline_bytes = sizeof(shm::FlagLine::payload);
constexpr uint32_t most_ahead = line::pull_slices;
constexpr size_t most_slice_bytes = 64 << 10;  // of all parts
constexpr size_t least_slice_bytes = 8 << 10;  // a shorter one costs more in flags than it hides
constexpr size_t least_copied_bytes = 32 << 10;
constexpr size_t least_long_bytes = 512 << 10;    // of long_exchanges
constexpr size_t most_copied_bytes = 4 << 20;     // between two looks at the clock
constexpr size_t streamed_piece_bytes = 4 << 10;  // reduced in the innermost cache

// A quarter of a rank's share of the cache: also what output is copied from wants room.
size_t kept_bytes(uint32_t nranks) { return last_level_cache_bytes() / (4 * nranks); }

std::atomic<uint64_t>& flag_at(std::byte* cell) {
  return *reinterpret_cast<std::atomic<uint64_t>*>(cell);
}
std::byte* payload_at(std::byte* cell) { return cell + offsetof(TinyCell, payload); }

constexpr uint32_t line_of(uint32_t sequence) { return line::pull + (sequence % most_ahead); }

}  // namespace

Pull::Pull(shm::SlotLink& link, SliceWriter& writer, ReadFor single_copy)
    : cells_(*link.cells()),
      board_(link),
      single_copy_(board_, single_copy, kept_bytes(board_.nranks())),
      writer_(writer),
      nranks_(cells_.nranks()),
      self_(cells_.rank()),
      ring_(cells_.bytes() - pull_ring_bytes),
      most_kept_bytes_(kept_bytes(nranks_)),
      goal_(Collective::barrier, nranks_),
      begins_(most_ahead),
      shown_(nranks_),
      operands_(nranks_) {}

size_t Pull::most_element_bytes(uint32_t nranks) {
  return most_slice_bytes / std::max(nranks - 1, 1u) / line_bytes * line_bytes;
}

void Pull::set_roles(const Goal& goal) {
  goal_ = goal;
  const auto moves = [&](uint32_t from, uint32_t to) {
    const uint32_t block = goal.block(from, to);
    return from != to && goal.gets(to, block) && goal.combines(from, to, block);
  };
  readers_ = 0;
  sources_.clear();
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    readers_ += moves(self_, rank);
    if (moves(rank, self_)) sources_.push_back(rank);
  }
}

void Pull::shape() {
  shaped_ = false;
  if (call_.collective != goal_.collective() || call_.root != goal_.root()) {
    set_roles(Goal(call_.collective, nranks_, call_.root));
  }
  part_bytes_ = call_.count * call_.element_size;
  separate_parts_ = call_.collective == Collective::scatter ||
                    call_.collective == Collective::alltoall ||
                    call_.collective == Collective::reduce_scatter;
  parts_ = separate_parts_ ? nranks_ - 1 : 1;
  find_own_block();
  if (!worth_single_copy() || single_copy_.answer() != SingleCopy::Answer::unknown) choose_way();
}

bool Pull::worth_single_copy() const { return part_bytes_ >= least_copied_bytes; }

// What single copy would be for. Where ranks take turns on their cores, a block that goes to all is
// better written once and read from the cache.
ReadFor Pull::read_for() const {
  const bool exchange =
      call_.collective == Collective::allgather || call_.collective == Collective::alltoall;
  const uint64_t fetched = part_bytes_ * (nranks_ - 1);
  if (!exchange || fetched > single_copy_.most_exchanged_bytes()) return ReadFor::everything;
  return separate_parts_ && part_bytes_ >= least_long_bytes ? ReadFor::long_exchanges
                                                            : ReadFor::exchanges;
}

void Pull::choose_way() {
  const bool combines = reduces(call_.collective);
  const uint64_t blocks = combines ? !sources_.empty() : sources_.size();
  streams_ = part_bytes_ * blocks > most_kept_bytes_ &&
             (!combines || call_.element_size <= streamed_piece_bytes);
  may_show_ = worth_single_copy() && single_copy_.answer() == SingleCopy::Answer::yes &&
              single_copy_.allows(read_for());
  in_line_ = part_bytes_ * parts_ <= inline_bytes;
  tiny_ = part_bytes_ * parts_ <= sizeof(TinyCell::payload);
  // Of all ranks: what they read, what they write, and their rings.
  const uint64_t inputs = nranks_ * part_bytes_ * (separate_parts_ ? nranks_ : 1);
  const uint64_t outputs = nranks_ * part_bytes_ * (gets_many() ? nranks_ : 1);
  const uint64_t all = inputs + outputs + nranks_ * pull_ring_bytes;
  const uint64_t cache = last_level_cache_bytes();
  exceeds_cache_ = all > cache;
  fits_without_ring_ = !exceeds_cache_ && all > cache / 4 * 3;
  first_line_ = tiny_ ? line::tiny : line::pull;
  cell_bytes_ = tiny_ ? sizeof(TinyCell) : sizeof(shm::FlagLine);
  if (in_line_) {
    slices_ = 1;
    slice_bytes_ = stride_ = part_bytes_;
  } else {
    cut_into_slices();
  }
  shaped_ = true;
  if (!may_show_ || !combines) return;
  const size_t bytes = sources_.size() * slice_bytes_;
  try {
    if (landed_.size() < bytes) landed_.resize(bytes);
  } catch (const std::bad_alloc&) {
    fail({TUTTI_NO_MEMORY, "cannot allocate " + std::to_string(bytes) + " bytes to reduce from"});
  }
}

void Pull::begin() {
  after_ = before_ + slices_;
  published_ = readers_ == 0 ? slices_ : 0;
  taken_ = sources_.empty() ? slices_ : 0;
  own_left_ = has_own_block_;
  if (!in_line_) place_earlier();
  shows_ = may_show_ && published_ != slices_ && shows_input();
  if (may_show_) std::fill(shown_.begin(), shown_.end(), Shown());
  if (taken_ != slices_) return;
  // Who takes nothing has gone past it all, and must not keep the others from going on.
  if (readers_ == 0) {
    board_.post(line::pull_read, after_, 0);
  } else {
    board_.set(line::pull_read, after_, 0);
  }
}

// Some slices even of a short part, so that writing and reading overlap; all equally long.
void Pull::cut_into_slices() {
  const size_t most =
      whole_granules(most_slice_bytes / parts_ / line_bytes * line_bytes, call_.element_size);
  const size_t wanted = std::clamp<size_t>(part_bytes_ / 4, least_slice_bytes, most_slice_bytes);
  slices_ = uint32_t((part_bytes_ + std::min(wanted, most) - 1) / std::min(wanted, most));
  const uint64_t elements = (call_.count + slices_ - 1) / slices_;
  slice_bytes_ = std::min<uint64_t>(most, elements * call_.element_size);
  slices_ = uint32_t((part_bytes_ + slice_bytes_ - 1) / slice_bytes_);
  stride_ = (slice_bytes_ + line_bytes - 1) / line_bytes * line_bytes;
}

// Not where this rank's output overwrites what others have yet to read.
bool Pull::shows_input() {
  const uint64_t all = separate_parts_ ? nranks_ * part_bytes_ : part_bytes_;
  const uint64_t written = reduces(call_.collective) ? part_bytes_ : nranks_ * part_bytes_;
  // Of an allgather only the own block may lie there, which stays.
  const bool writes = call_.collective != Collective::allgather && !sources_.empty();
  if (writes && call_.input < call_.output + written && call_.output < call_.input + all) {
    return false;
  }
  const bool far = writer_.past_caches(part_bytes_);
  return far || fits_without_ring_ || !single_copy_.only_from_afar();
}

void Pull::fail(Status status) {
  failure_ = std::move(status);
  done_ = true;
}

void Pull::withdraw() {
  if (shows_) board_.clear(line_of(before_));
}

// The own block, where all blocks come together, and what rank 0 gets of a scan.
void Pull::find_own_block() {
  const uint64_t own = self_ * part_bytes_;
  const bool root = self_ == call_.root;
  own_from_ = own_to_ = 0;
  switch (call_.collective) {
    case Collective::allgather:
    case Collective::gather:
      has_own_block_ = root || call_.collective == Collective::allgather;
      own_to_ = own;
      return;
    case Collective::alltoall:
      has_own_block_ = true;
      own_from_ = own_to_ = own;
      return;
    case Collective::scatter:
      has_own_block_ = root;
      own_from_ = own;
      return;
    case Collective::scan:
      has_own_block_ = self_ == 0;
      return;
    default:
      has_own_block_ = false;
      return;
  }
}

void Pull::place(uint32_t slice) {
  const uint64_t bytes = slice_in_ring();
  for (; int32_t(placed_ - before_ - slice) <= 0; ++placed_) {
    const uint64_t left = pull_ring_bytes - next_begin_ % pull_ring_bytes;
    if (left < bytes) next_begin_ += left;  // no slice goes round the end
    begins_[placed_ % most_ahead] = next_begin_;
    next_begin_ += bytes;
  }
}

void Pull::place_earlier() {
  if (before_ - placed_ > most_ahead) placed_ = before_ - most_ahead;
  for (; placed_ != before_; ++placed_) begins_[placed_ % most_ahead] = next_begin_;
}

bool Pull::fits(uint32_t sequence) const {
  if (sequence - read_ >= most_ahead) return false;
  return in_line_ || begin_of(sequence) + slice_in_ring() - begin_of(read_) <= pull_ring_bytes;
}

bool Pull::has_room() {
  if (!in_line_) place(published_);
  const uint32_t next = before_ + published_;
  return fits(next) || fits_by_now(next);
}

bool Pull::fits_by_now(uint32_t sequence) {
  read_ = before_ + std::min(taken_, published_);
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank == self_) continue;
    const uint32_t theirs = shm::flag_sequence(board_.flag(rank, line::pull_read));
    if (int32_t(theirs - read_) < 0) read_ = theirs;
  }
  return fits(sequence);
}

// A slice of what the readers get, beginning at `from` in the first part.
template <class Copy>
void Pull::write_parts(std::byte* to, const std::byte* from, size_t bytes, Copy&& copy) const {
  if (!separate_parts_) return copy(to, from, bytes);
  for (uint32_t reader = 0; reader < nranks_; ++reader, from += part_bytes_) {
    if (reader != self_) copy(to + peer_position(self_, reader) * stride_, from, bytes);
  }
}

bool Pull::publish_slice() {
  if (!has_room()) return false;
  const uint32_t sequence = before_ + published_;
  const uint64_t offset = published_ * slice_bytes_;
  ++published_;
  std::byte* const cell = cell_of(self_, sequence);
  if (in_line_) {
    write_parts(payload_at(cell), call_.input, part_bytes_, shm::copy_short);
  } else if (shows_) {
    std::memcpy(payload_at(cell), &call_.input, sizeof(call_.input));
  } else {
    if (may_show_) std::memset(payload_at(cell), 0, sizeof(call_.input));
    write_parts(data_of(self_, sequence), call_.input + offset,
                std::min(slice_bytes_, part_bytes_ - offset),
                [this](std::byte* to, const std::byte* from, size_t bytes) {
                  writer_.copy(to, from, bytes);
                });
  }
  board_.post(flag_at(cell), sequence + 1, call_.digest);
  if (in_line_ && !tiny_) ask_line_back(sequence + 4);
  if (shows_) published_ = slices_;
  return true;
}

// From the reader who has had it since the ring was there the last time: it comes while others are
// written (broadcast of 32 B, 2 ranks: 92 -> 89 ns).
void Pull::ask_line_back(uint32_t sequence) const {
  if (sequence - read_ >= most_ahead) return;
  const auto& flag = board_.at(self_, line_of(sequence)).flag;
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(flag));
#else
  __builtin_prefetch(&flag, 1);
#endif
}

bool Pull::there(uint32_t source, uint32_t slice) {
  const uint32_t sequence = before_ + slice;
  return board_.posted(source, flag_at(cell_of(source, sequence)), sequence + 1, call_.digest);
}

std::byte* Pull::cell_of(uint32_t rank, uint32_t sequence) const {
  return reinterpret_cast<std::byte*>(&board_.at(rank, first_line_)) +
         sequence % most_ahead * cell_bytes_;
}

std::byte* Pull::data_of(uint32_t rank, uint32_t sequence) const {
  return cells_.data(rank) + ring_ + begin_of(sequence) % pull_ring_bytes;
}

const std::byte* Pull::part_of(uint32_t source, uint32_t slice) const {
  const uint32_t sequence = before_ + slice;
  const std::byte* const from =
      in_line_ ? payload_at(cell_of(source, sequence)) : data_of(source, sequence);
  return separate_parts_ ? from + peer_position(source, self_) * stride_ : from;
}

bool Pull::take_slice() {
  // What is written may lie over the own input, so that must be published first.
  if (readers_ != 0 && taken_ == published_) return false;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (shows(i) || there(sources_[i], taken_)) continue;
    streak_ = 0;
    return false;
  }
  if (may_show_ && taken_ == 0) note_shown();
  if (!in_line_) place(taken_);
  const uint64_t offset = taken_ * slice_bytes_;
  const size_t bytes = std::min(slice_bytes_, part_bytes_ - offset);
  if (!(reduces(call_.collective) ? reduce_slice(offset, bytes) : copy_slice(offset, bytes))) {
    return false;
  }
  if (!in_line_) writer_.has_read();
  do {
    ++taken_;
  } while (has_copied_slice());
  // Others wait for it only when they run out of room.
  board_.post(line::pull_read, before_ + taken_, 0);
  if (++streak_ > 1) fetch_next();
  return true;
}

// Who of the sources lets others copy from its input: its first flag says where that lies.
void Pull::note_shown() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    std::memcpy(&shown_[i].part, payload_at(cell_of(sources_[i], before_)), sizeof(shown_[i].part));
    if (shows(i) && separate_parts_) shown_[i].part += self_ * part_bytes_;
  }
}

// Whether the next slice has come with the ones before.
bool Pull::has_copied_slice() const {
  if (!may_show_ || taken_ == slices_ || (readers_ != 0 && taken_ >= published_)) return false;
  const uint64_t end = std::min((taken_ + 1) * slice_bytes_, part_bytes_);
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (shown_[i].copied < end) return false;
  }
  return true;
}

// To be called only where the sources are ahead: else it would take from them what they write.
void Pull::fetch_next() const {
  const uint32_t next = before_ + taken_;
  for (const uint32_t source : sources_) {
    const uint32_t ahead = tiny_ ? line::tiny_in_line : std::min(streak_ / 4, 3u);
    __builtin_prefetch(&flag_at(cell_of(source, next + ahead)));
    if (!in_line_) __builtin_prefetch(data_of(source, next));
  }
}

bool Pull::gets_many() const {
  return call_.collective == Collective::allgather || call_.collective == Collective::gather ||
         call_.collective == Collective::alltoall;
}

std::byte* Pull::place_of(uint32_t source) const {
  return call_.output + (gets_many() ? source * part_bytes_ : 0);
}

bool Pull::copy_slice(uint64_t offset, size_t bytes) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const uint32_t source = sources_[i];
    std::byte* const to = place_of(source) + offset;
    if (in_line_) {
      shm::copy_short(to, part_of(source, taken_), bytes);
    } else if (!shows(i)) {
      fetch_bytes(to, part_of(source, taken_), bytes, streams_);
    } else if (shown_[i].copied < offset + bytes && !copy_shown(i)) {
      return false;
    }
  }
  return true;
}

// The next piece of what source `i` shows: many slices at once.
bool Pull::copy_shown(size_t i) {
  uint64_t& copied = shown_[i].copied;
  const size_t bytes = std::min<uint64_t>(most_copied_bytes, part_bytes_ - copied);
  if (!copy_from(i, copied, place_of(sources_[i]) + copied, bytes)) return false;
  copied += bytes;
  return true;
}

// What it reads is what source `i` has shown only if that has not been withdrawn meanwhile.
bool Pull::copy_from(size_t i, uint64_t offset, std::byte* to, size_t bytes) {
  const uint32_t source = sources_[i];
  const int error = single_copy_.read(source, shown_[i].part + offset, to, bytes);
  if (!there(source, 0)) return false;
  if (error == 0) return true;
  if (error != ESRCH) {  // else the link finds that it died
    fail({TUTTI_INVALID,
          "cannot read the input of rank " + std::to_string(source) + ": " + std::strerror(error),
          int(source)});
  }
  return false;
}

int Pull::still_before(uint32_t sequence) const {
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    const uint32_t theirs = shm::flag_sequence(board_.flag(rank, line::pull_read));
    if (rank != self_ && int32_t(theirs - sequence) < 0) return int(rank);
  }
  return -1;
}

// Where the slice of source `i` can be read: in the ring, or where it lands in this rank's memory;
// null where it was withdrawn.
const std::byte* Pull::fetched(size_t i, uint64_t offset, size_t bytes) {
  if (!shows(i)) return part_of(sources_[i], taken_);
  std::byte* const to = landed_.data() + i * slice_bytes_;
  return copy_from(i, offset, to, bytes) ? to : nullptr;
}

bool Pull::reduce_slice(uint64_t offset, size_t bytes) {
  const uint32_t block = goal_.block(self_, self_);
  uint32_t n = 0;
  size_t i = 0;
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (!goal_.combines(rank, self_, block)) continue;
    operands_[n] =
        rank == self_ ? call_.input + block * part_bytes_ + offset : fetched(i++, offset, bytes);
    if (operands_[n++] == nullptr) return false;
  }
  if (!streams_) {
    reduce_to(call_.output + offset, n, bytes);
    return true;
  }
  alignas(line_bytes) std::byte piece[streamed_piece_bytes];
  const size_t most = whole_granules(streamed_piece_bytes, call_.element_size);
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

// Of the first n of operands_.
void Pull::reduce_to(std::byte* out, uint32_t n, size_t bytes) {
  const size_t elements = bytes / call_.element_size;
  if (n == 2) {
    call_.kernels->reduce2(out, operands_[0], operands_[1], elements);
  } else {
    call_.kernels->reduce(out, operands_.data(), n, elements);
  }
  if (call_.kernels->divide != nullptr && n > 1) call_.kernels->divide(out, elements, n);
}

void Pull::copy_own_block() {
  own_left_ = false;
  const std::byte* const from = call_.input + own_from_;
  std::byte* const to = call_.output + own_to_;
  if (from == to) return;
  copy_bytes(to, from, part_bytes_, exceeds_cache_);
  if (exceeds_cache_) stream_fence();
}

bool Pull::advance() {
  if (!shaped_) {
    if (single_copy_.answer() == SingleCopy::Answer::unknown) return false;
    choose_way();
    begin();
  }
  if (done_) return true;  // it has failed
  const bool published = published_ != slices_ && publish_slice();
  if (own_left_) copy_own_block();  // while the peers look at what was published
  const bool taken = taken_ != slices_ && take_slice();
  if (done_) return true;
  done_ = published_ == slices_ && taken_ == slices_ && (!is_read() || still_before(after_) < 0);
  if (done_) {
    if (streams_) stream_fence();
    transfers_.sent(readers_, readers_ * part_bytes_);
    transfers_.received(sources_.size(), sources_.size() * part_bytes_);
  }
  return published || taken;
}

int Pull::waits_for() {
  if (done_) return -1;
  if (!shaped_) return single_copy_.waits_for();
  for (const uint32_t source : sources_) {
    if (taken_ < slices_ && !there(source, taken_)) return int(source);
  }
  if (is_read()) return still_before(after_);
  return published_ == slices_ || has_room() ? -1 : still_before(read_ + 1);
}

}  // namespace tutti::plan
