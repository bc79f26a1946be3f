#include "lib/plan/pull.h"

#include <algorithm>
#include <cstring>

#include "algorithms/patterns.h"

namespace tutti::plan {

namespace {

constexpr size_t line_bytes = shm::line_bytes;
constexpr size_t inline_bytes = sizeof(shm::FlagLine::payload);
constexpr uint32_t slots = line::pull_slots;
constexpr size_t slot_bytes = pull_slot_bytes;
constexpr size_t least_slice_bytes = 8 << 10;  // a shorter one costs more in flags than it hides

constexpr uint32_t line_of(uint32_t sequence) { return line::pull + 2 * (sequence % slots); }

}  // namespace

Pull::Pull(shm::SlotLink& link)
    : cells_(*link.cells()),
      board_(link),
      nranks_(cells_.nranks()),
      self_(cells_.rank()),
      arena_(cells_.bytes() - pull_arena_bytes),
      goal_(Collective::barrier, nranks_),
      room_until_(slots),
      operands_(nranks_) {}

size_t Pull::most_element_bytes(uint32_t nranks) {
  return slot_bytes / std::max(nranks - 1, 1u) / line_bytes * line_bytes;
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

bool Pull::separate_parts() const {
  return call_.collective == Collective::scatter || call_.collective == Collective::alltoall ||
         call_.collective == Collective::reduce_scatter;
}

void Pull::start(const PullCall& call) {
  if (call.collective != goal_.collective() || call.root != goal_.root()) {
    set_roles(Goal(call.collective, nranks_, call.root));
  }
  call_ = call;
  done_ = false;
  ahead_ = true;
  before_ += slices_;
  published_ = taken_ = 0;
  part_bytes_ = call.count * call.element_size;
  parts_ = separate_parts() ? nranks_ - 1 : 1;
  in_line_ = part_bytes_ * parts_ <= inline_bytes;
  if (in_line_) {
    slices_ = 1;
    slice_bytes_ = stride_ = part_bytes_;
  } else {
    // Some slices even of a short part, so that writing and reading overlap; all equally long.
    const size_t most =
        whole_granules(slot_bytes / parts_ / line_bytes * line_bytes, call.element_size);
    const size_t wanted = std::clamp<size_t>(part_bytes_ / 4, least_slice_bytes, slot_bytes);
    slices_ = uint32_t((part_bytes_ + std::min(wanted, most) - 1) / std::min(wanted, most));
    const uint64_t elements = (call.count + slices_ - 1) / slices_;
    slice_bytes_ = std::min<uint64_t>(most, elements * call.element_size);
    slices_ = uint32_t((part_bytes_ + slice_bytes_ - 1) / slice_bytes_);
    stride_ = (slice_bytes_ + line_bytes - 1) / line_bytes * line_bytes;
  }
  if (readers_ == 0) published_ = slices_;
  if (sources_.empty()) taken_ = slices_;
  place_own_block();
  // Who takes nothing has gone past it all, and must not keep the others from going on.
  if (taken_ == slices_) board_.post(line::pull_read, before_ + slices_, 0);
}

// The own block, where all blocks come together, and what rank 0 gets of a scan.
void Pull::place_own_block() {
  const uint64_t own = self_ * part_bytes_;
  own_from_ = call_.input;
  own_to_ = call_.output;
  switch (call_.collective) {
    case Collective::gather:
      if (self_ != call_.root) break;
      [[fallthrough]];
    case Collective::allgather:
      own_to_ += own;
      return;
    case Collective::alltoall:
      own_from_ += own;
      own_to_ += own;
      return;
    case Collective::scatter:
      if (self_ != call_.root) break;
      own_from_ += own;
      return;
    case Collective::scan:
      if (self_ == 0) return;
      break;
    default:
      break;
  }
  own_from_ = own_to_;
}

bool Pull::has_room() {
  const uint32_t next = before_ + published_;
  if (int32_t(next - room_until_) < 0) return true;
  uint32_t read = next;  // the least that a rank has gone past; nobody is ahead of this one
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank == self_) continue;
    const uint32_t theirs = shm::flag_sequence(board_.flag(rank, line::pull_read));
    if (int32_t(theirs - read) < 0) read = theirs;
  }
  room_until_ = read + slots;
  return int32_t(next - room_until_) < 0;
}

bool Pull::publish_slice() {
  if (published_ == slices_ || !has_room()) return false;
  const uint32_t sequence = before_ + published_;
  const uint64_t offset = published_ * slice_bytes_;
  const size_t bytes = std::min(slice_bytes_, part_bytes_ - offset);
  const uint32_t flag_line = line_of(sequence);
  std::byte* const to = in_line_ ? board_.at(self_, flag_line).payload : slot(self_, sequence);
  if (separate_parts()) {
    for (uint32_t reader = 0; reader < nranks_; ++reader) {
      if (reader == self_) continue;
      std::memcpy(to + peer_position(self_, reader) * stride_,
                  call_.input + reader * part_bytes_ + offset, bytes);
    }
  } else if (in_line_) {
    shm::fill_line(board_.at(self_, flag_line).payload, call_.input, bytes);
  } else {
    std::memcpy(to, call_.input + offset, bytes);
  }
  ++published_;
  board_.post(flag_line, sequence + 1, call_.digest);
  return true;
}

bool Pull::there(uint32_t source, uint32_t slice) {
  return board_.posted(source, line_of(before_ + slice), before_ + slice + 1, call_.digest);
}

std::byte* Pull::slot(uint32_t rank, uint32_t sequence) const {
  return cells_.data(rank) + arena_ + sequence % slots * pull_slot_stride;
}

const std::byte* Pull::part_of(uint32_t source, uint32_t slice) const {
  const uint32_t sequence = before_ + slice;
  const std::byte* const from =
      in_line_ ? board_.at(source, line_of(sequence)).payload : slot(source, sequence);
  return separate_parts() ? from + peer_position(source, self_) * stride_ : from;
}

bool Pull::take_slice() {
  // What is written may lie over the own input, so that must be published first.
  if (taken_ == slices_ || (readers_ != 0 && taken_ == published_)) return false;
  for (const uint32_t source : sources_) {
    if (there(source, taken_)) continue;
    ahead_ = false;
    return false;
  }
  const uint64_t offset = taken_ * slice_bytes_;
  const size_t bytes = std::min(slice_bytes_, part_bytes_ - offset);
  if (reduces(call_.collective)) {
    reduce_slice(offset, bytes);
  } else {
    copy_slice(offset, bytes);
  }
  ++taken_;
  // Others wait for it only when they run out of slots.
  board_.post(line::pull_read, before_ + taken_, 0);
  if (ahead_) fetch_next();
  return true;
}

// To be called only where the sources are ahead: else it would take from them what they write.
void Pull::fetch_next() const {
  const uint32_t next = before_ + taken_;
  for (const uint32_t source : sources_) {
    __builtin_prefetch(&board_.at(source, line_of(next)));
    if (!in_line_) __builtin_prefetch(slot(source, next));
  }
}

void Pull::copy_slice(uint64_t offset, size_t bytes) {
  const bool many = call_.collective == Collective::allgather ||
                    call_.collective == Collective::gather ||
                    call_.collective == Collective::alltoall;
  for (const uint32_t source : sources_) {
    std::memcpy(call_.output + (many ? source * part_bytes_ : 0) + offset, part_of(source, taken_),
                bytes);
  }
}

void Pull::reduce_slice(uint64_t offset, size_t bytes) {
  const uint32_t block = goal_.block(self_, self_);
  const std::byte* const own = call_.input + block * part_bytes_;
  uint32_t n = 0;
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (!goal_.combines(rank, self_, block)) continue;
    operands_[n++] = rank == self_ ? own + offset : part_of(rank, taken_);
  }
  const size_t elements = bytes / call_.element_size;
  if (n == 2) {
    call_.kernels.reduce2(call_.output + offset, operands_[0], operands_[1], elements);
  } else {
    call_.kernels.reduce(call_.output + offset, operands_.data(), n, elements);
  }
  if (call_.kernels.divide != nullptr && n > 1) {
    call_.kernels.divide(call_.output + offset, elements, n);
  }
}

bool Pull::advance() {
  const bool published = publish_slice();
  if (own_from_ != own_to_) {  // while the peers look at what was published
    std::memcpy(own_to_, own_from_, part_bytes_);
    own_from_ = own_to_;
  }
  const bool taken = take_slice();
  done_ = published_ == slices_ && taken_ == slices_;
  if (done_) {
    transfers_.sent(readers_, readers_ * part_bytes_);
    transfers_.received(sources_.size(), sources_.size() * part_bytes_);
  }
  return published || taken;
}

int Pull::waits_for() {
  if (done_) return -1;
  for (const uint32_t source : sources_) {
    if (taken_ < slices_ && !there(source, taken_)) return int(source);
  }
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank == self_) continue;
    const uint32_t theirs = shm::flag_sequence(board_.flag(rank, line::pull_read));
    if (published_ < slices_ && int32_t(before_ + published_ - theirs) >= int32_t(slots)) {
      return int(rank);
    }
  }
  return -1;
}

}  // namespace tutti::plan
