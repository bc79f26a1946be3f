#include "lib/plan/fused.h"

#include <algorithm>
#include <cstring>

#include "lib/cache.h"
#include "lib/reduce/copy.h"
#include "lib/schedule/chunks.h"

namespace tutti::plan {

namespace {

constexpr size_t line_bytes = shm::line_bytes;
constexpr size_t inline_bytes = sizeof(shm::FlagLine::payload);
constexpr size_t resident_bytes =
    8 << 10;  // up to here a vector is fastest in one of two fixed places
constexpr size_t longest_one_shot = 64 << 10;
constexpr size_t least_direct = 4 << 10;  // up to here staging costs less than a second hop
constexpr size_t longest_slice = 64 << 10;
constexpr size_t least_measured_bytes = 2 << 10;  // of a vector whose way depends on the distance
constexpr size_t rotated_bytes = 1 << 20;         // more would only push the vectors out of cache
constexpr uint32_t longest_window = 16;
constexpr uint32_t least_window = 4;
constexpr size_t piece_bytes = 4 << 10;  // reduced, then copied from the innermost cache

size_t round_up(size_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

}  // namespace

// The cells of a rank: two resident vectors, the publish arena, the result arena, pull's ring.
Fused::Fused(shm::SlotLink& link, SliceWriter& writer, const shm::Regions& regions,
             uint32_t group_size)
    : cells_(*link.cells()),
      board_(link),
      direct_(board_, regions),
      writer_(writer),
      nranks_(cells_.nranks()),
      self_(cells_.rank()),
      levels_(nranks_, group_size),
      operands_(nranks_),
      piece_(nranks_) {
  last_level_cache_bytes();  // now, because the first time takes longer than a call
  const size_t arenas = cells_.bytes() - pull_ring_bytes - 2 * resident_bytes;
  result_arena_ = std::min(rotated_bytes, arenas / 2 / line_bytes * line_bytes);
  publish_arena_ = (arenas - result_arena_) / line_bytes * line_bytes;
  const size_t fits = publish_arena_ / (least_window * (nranks_ - 1));
  most_slice_bytes_ = std::min(longest_slice, fits / line_bytes * line_bytes);
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    const uint32_t own = levels_.group_of(self_);
    group_readers_ +=
        levels_.group_of(rank) != own && levels_.partner(own, levels_.place_of(rank)) == self_;
  }
}

size_t Fused::one_shot_bytes() { return longest_one_shot; }
size_t Fused::two_level_bytes() { return resident_bytes / 2; }

void Fused::start(const FusedCall& call, Path path) {
  call_ = call;
  path_ = path;
  done_ = false;
  ++turn_;
  slices_ += rounds_;
  rounds_ = 0;
  if (path != Path::two_shot) ++calls_;
  unread_ = staged_;
  staged_ = {};
  if (call.bytes() > least_direct && direct_.announce(call, turn_)) {
    mode_ = Mode::meeting;
    return;
  }
  stage();
}

void Fused::stage() {
  mode_ = Mode::staged;
  if (path_ == Path::one_shot) stage_one_shot();
  if (path_ == Path::two_level) stage_two_level();
  if (path_ == Path::two_shot) stage_two_shot();
}

// ---------------------------------------------------------------- direct

bool Fused::staged_at(uint32_t rank) {
  return path_ == Path::two_shot ? reached(rank, line::publish, 0) : published_one_shot(rank);
}

// Whether it is settled how the call goes on.
bool Fused::meet() {
  bool all = true;
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank == self_ || direct_.announced(rank)) continue;
    if (staged_at(rank)) {
      stage();
      return true;
    }
    all = false;
  }
  if (!all) return false;
  mode_ = Mode::direct;
  ++direct_calls_;
  failure_ = direct_.begin();
  done_ = !failure_.ok();
  return true;
}

bool Fused::advance_direct() {
  if (mode_ == Mode::meeting) return meet();
  const bool moved = direct_.advance();
  done_ = direct_.done();
  if (done_) count_two_shot();
  return moved;
}

// ---------------------------------------------------------------- one-shot

void Fused::stage_one_shot() {
  ready_peers_ = 0;
  const size_t bytes = call_.bytes();
  const uint32_t cell = calls_ & 1;
  if (bytes <= inline_bytes) {
    shm::copy_short(board_.at(self_, line::one_shot + 2 * cell).payload, call_.input, bytes);
  } else {
    block_ = cell * resident_bytes;
    if (bytes > resident_bytes) {
      if (next_block_ + bytes > publish_arena_) next_block_ = 0;
      block_ = 2 * resident_bytes + next_block_;
      staged_ = {next_block_, next_block_ + round_up(bytes)};
      next_block_ = staged_.end;
    }
    std::byte* const to = cells_.data(self_) + block_;
    bytes < least_measured_bytes ? void(std::memcpy(to, call_.input, bytes))
                                 : writer_.copy(to, call_.input, bytes);
  }
  board_.post(line::one_shot + 2 * cell, calls_, call_.digest);
}

bool Fused::published_one_shot(uint32_t rank) const {
  return board_.posted(rank, line::one_shot + 2 * (calls_ & 1), calls_, call_.digest);
}

bool Fused::advance_one_shot() {
  for (; ready_peers_ < nranks_; ++ready_peers_) {
    if (ready_peers_ != self_ && !published_one_shot(ready_peers_)) return false;
  }
  const uint32_t cell = calls_ & 1;
  const bool in_line = call_.bytes() <= inline_bytes;
  const auto vector_of = [&](uint32_t rank) -> const std::byte* {
    if (rank == self_) return call_.input;
    return in_line ? board_.at(rank, line::one_shot + 2 * cell).payload
                   : cells_.data(rank) + block_;
  };
  if (nranks_ == 2) {
    call_.kernels.reduce2(call_.output, vector_of(0), vector_of(1), call_.count);
  } else {
    for (uint32_t rank = 0; rank < nranks_; ++rank) operands_[rank] = vector_of(rank);
    call_.kernels.reduce(call_.output, operands_.data(), nranks_, call_.count);
  }
  if (call_.kernels.divide != nullptr) call_.kernels.divide(call_.output, call_.count, nranks_);
  if (call_.bytes() >= least_measured_bytes) writer_.has_read();
  const uint64_t peers = nranks_ - 1;
  transfers_.sent(peers, peers * call_.bytes());
  transfers_.received(peers, peers * call_.bytes());
  done_ = true;
  return true;
}

// ---------------------------------------------------------------- two-level

// As one-shot, in the resident cells: the own vector in their first half, the group's result in the
// second.
void Fused::stage_two_level() {
  group_folded_ = false;
  const uint32_t cell = calls_ & 1;
  block_ = cell * resident_bytes;
  if (call_.bytes() <= inline_bytes) {
    shm::copy_short(board_.at(self_, line::one_shot + 2 * cell).payload, call_.input,
                    call_.bytes());
  } else {
    std::memcpy(cells_.data(self_) + block_, call_.input, call_.bytes());
  }
  board_.post(line::one_shot + 2 * cell, calls_, call_.digest);
}

bool Fused::published_group(uint32_t rank) const {
  return board_.posted(rank, line::group + 2 * (calls_ & 1), calls_, call_.digest);
}

const std::byte* Fused::group_result(uint32_t rank) const {
  if (call_.bytes() <= inline_bytes) return board_.at(rank, line::group + 2 * (calls_ & 1)).payload;
  return cells_.data(rank) + block_ + resident_bytes / 2;
}

bool Fused::fold_group() {
  const uint32_t group = levels_.group_of(self_), members = levels_.size(group);
  for (uint32_t place = 0; place < members; ++place) {
    const uint32_t rank = levels_.rank_at(group, place);
    if (rank != self_ && !published_one_shot(rank)) return false;
    operands_[place] = rank == self_ ? call_.input
                       : call_.bytes() <= inline_bytes
                           ? board_.at(rank, line::one_shot + 2 * (calls_ & 1)).payload
                           : cells_.data(rank) + block_;
  }
  if (call_.bytes() <= inline_bytes) {
    alignas(line_bytes) std::byte result[inline_bytes];
    call_.kernels.reduce(result, operands_.data(), members, call_.count);
    shm::copy_short(board_.at(self_, line::group + 2 * (calls_ & 1)).payload, result,
                    call_.bytes());
  } else {
    std::byte* const result = cells_.data(self_) + block_ + resident_bytes / 2;
    call_.kernels.reduce(result, operands_.data(), members, call_.count);
  }
  group_folded_ = true;
  board_.post(line::group + 2 * (calls_ & 1), calls_, call_.digest);
  return true;
}

bool Fused::fold_groups() {
  for (uint32_t group = 0; group < levels_.groups; ++group) {
    const bool own = group == levels_.group_of(self_);
    const uint32_t rank = own ? self_ : levels_.partner(group, levels_.place_of(self_));
    if (!own && !published_group(rank)) return false;
    operands_[group] = group_result(rank);
  }
  call_.kernels.reduce(call_.output, operands_.data(), levels_.groups, call_.count);
  if (call_.kernels.divide != nullptr) call_.kernels.divide(call_.output, call_.count, nranks_);
  const uint64_t mates = levels_.size(levels_.group_of(self_)) - 1;
  const uint64_t sent = mates + group_readers_, received = mates + levels_.groups - 1;
  transfers_.sent(sent, sent * call_.bytes());
  transfers_.received(received, received * call_.bytes());
  done_ = true;
  return true;
}

bool Fused::advance_two_level() { return group_folded_ ? fold_groups() : fold_group(); }

// ---------------------------------------------------------------- two-shot

void Fused::stage_two_shot() {
  streams_ = exceeds_cache(call_.bytes(), nranks_);
  published_ = reduced_ = gathered_ = 0;
  // Slices are equally long, so that none is a mere rest.
  const schedule::ChunkMap shards(call_.count, nranks_, line_bytes / call_.element_size);
  const size_t shard_bytes =
      std::max(shards.size(0), shards.size(nranks_ - 1)) * call_.element_size;
  rounds_ = uint32_t((shard_bytes + most_slice_bytes_ - 1) / most_slice_bytes_);
  slice_bytes_ = round_up((shard_bytes + rounds_ - 1) / rounds_);
  // Going on where the last call ended keeps the blocks rotating.
  const size_t stride = slice_bytes_ * (nranks_ - 1);
  publish_slots_ = uint32_t(std::max(std::min(publish_arena_, rotated_bytes), 4 * stride) / stride);
  result_slots_ = uint32_t(std::min(result_arena_, rotated_bytes) / slice_bytes_);
  window_ = std::min({publish_slots_, result_slots_, longest_window});
  first_slot_ = uint32_t((next_block_ + stride - 1) / stride);
  if (first_slot_ >= publish_slots_) first_slot_ = 0;
  clear_slots_ = publish_slots_;
  const auto first_unread = uint32_t(unread_.begin / stride);
  if (unread_.end != 0 && first_unread < publish_slots_) {
    clear_slots_ = (first_unread + publish_slots_ - first_slot_) % publish_slots_;
  }
  next_block_ = (first_slot_ + rounds_) % publish_slots_ * stride;
}

Fused::Slice Fused::slice_of(uint32_t owner, uint32_t index) const {
  const schedule::ChunkMap shards(call_.count, nranks_, line_bytes / call_.element_size);
  const uint64_t begin = shards.begin(owner) * call_.element_size;
  const uint64_t bytes = shards.size(owner) * call_.element_size;
  const uint64_t from = std::min<uint64_t>(bytes, uint64_t(index) * slice_bytes_);
  return {begin + from, std::min<uint64_t>(slice_bytes_, bytes - from)};
}

std::byte* Fused::published(uint32_t rank, uint32_t index, uint32_t owner) const {
  const size_t slot = (first_slot_ + index) % publish_slots_;
  const size_t place = owner < rank ? owner : owner - 1;  // nothing is published for oneself
  return cells_.data(rank) + 2 * resident_bytes + (slot * (nranks_ - 1) + place) * slice_bytes_;
}

std::byte* Fused::result(uint32_t rank, uint32_t index) const {
  const size_t slot = (first_slot_ + index) % result_slots_;
  return cells_.data(rank) + 2 * resident_bytes + publish_arena_ + slot * slice_bytes_;
}

bool Fused::reached(uint32_t rank, uint32_t line, uint32_t index) {
  const uint64_t flag = board_.flag(rank, line);
  // How many slices of this call; more than it has when the peer is in a later one.
  const auto count = int32_t(shm::flag_sequence(flag) - slices_);
  if (count <= int32_t(index)) return false;
  if (count > int32_t(rounds_) || shm::flag_digest(flag) == call_.digest) return true;
  board_.note_stranger(rank);
  return false;
}

bool Fused::all_reached(uint32_t line, uint32_t index) {
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank != self_ && !reached(rank, line, index)) return false;
  }
  return true;
}

bool Fused::publish_slice() {
  if (published_ == rounds_ || published_ + 2 > gathered_ + window_) return false;
  // Whoever has published in this call has read all of the one before.
  if (reduced_ == 0 && published_ == clear_slots_) return false;
  for (uint32_t owner = 0; owner < nranks_; ++owner) {
    if (owner == self_) continue;
    const Slice slice = slice_of(owner, published_);
    writer_.copy(published(self_, published_, owner), call_.input + slice.offset, slice.bytes);
  }
  ++published_;
  board_.post(line::publish, slices_ + published_, call_.digest);
  return true;
}

// Combines operands_ into what the peers will read, and copies that to `out`, a piece at a time.
void Fused::reduce_into(std::byte* out, std::byte* copy, size_t bytes) {
  const bool past_caches = writer_.past_caches(bytes);
  // Both places at once; past the caches the kernel does that only where they are equally aligned.
  const bool at_once = nranks_ == 2 && call_.kernels.divide == nullptr &&
                       (!past_caches || size_t(out - copy) % line_bytes == 0);
  alignas(line_bytes) std::byte block[piece_bytes];
  for (size_t done = 0; done < bytes; done += piece_bytes) {
    const size_t now = std::min(piece_bytes, bytes - done);
    const size_t elements = now / call_.element_size;
    for (uint32_t rank = 0; rank < nranks_; ++rank) {
      piece_[rank] = static_cast<const std::byte*>(operands_[rank]) + done;
    }
    if (at_once) {
      const Stores stores = past_caches && streams_   ? Stores::stream_both
                            : past_caches || streams_ ? Stores::stream_other
                                                      : Stores::cached;
      std::byte* const first = past_caches ? out : copy;
      std::byte* const other = past_caches ? copy : out;
      call_.kernels.reduce2_twice(first + done, other + done, piece_[0], piece_[1], elements,
                                  stores);
      continue;
    }
    std::byte* const result = past_caches ? block : copy + done;
    call_.kernels.reduce(result, piece_.data(), nranks_, elements);
    if (call_.kernels.divide != nullptr) call_.kernels.divide(result, elements, nranks_);
    if (past_caches) stream_copy(copy + done, result, now);
    copy_bytes(out + done, result, now, streams_);
  }
  if (past_caches) stream_fence();
}

bool Fused::reduce_slice() {
  if (reduced_ == published_ || !all_reached(line::publish, reduced_)) return false;
  const Slice slice = slice_of(self_, reduced_);
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    operands_[rank] = rank == self_ ? call_.input + slice.offset : published(rank, reduced_, self_);
  }
  reduce_into(call_.output + slice.offset, result(self_, reduced_), slice.bytes);
  ++reduced_;
  board_.post(line::result, slices_ + reduced_, call_.digest);
  return true;
}

bool Fused::gather_slice() {
  if (gathered_ == reduced_ || !all_reached(line::result, gathered_)) return false;
  for (uint32_t owner = 0; owner < nranks_; ++owner) {
    if (owner == self_) continue;
    const Slice slice = slice_of(owner, gathered_);
    std::byte* const to = call_.output + slice.offset;
    const std::byte* const from = result(owner, gathered_);
    writer_.far() ? fetch_bytes(to, from, slice.bytes, streams_)
                  : copy_bytes(to, from, slice.bytes, streams_);
  }
  writer_.has_read();
  done_ = ++gathered_ == rounds_;
  if (done_ && streams_) stream_fence();
  if (done_) count_two_shot();
  return true;
}

// A part of the own vector for every other owner, and the own part's result for all; the same comes
// back. Shards that are empty are nobody's.
void Fused::count_two_shot() {
  const schedule::ChunkMap shards(call_.count, nranks_, line_bytes / call_.element_size);
  const uint64_t own = shards.size(self_) * call_.element_size, peers = nranks_ - 1;
  uint64_t messages = own != 0 ? peers : 0;
  for (uint32_t owner = 0; owner < nranks_; ++owner) {
    messages += owner != self_ && shards.size(owner) != 0;
  }
  const uint64_t bytes = call_.bytes() - own + peers * own;
  transfers_.sent(messages, bytes);
  transfers_.received(messages, bytes);
}

bool Fused::advance_two_shot() {
  const bool published = publish_slice();
  const bool reduced = reduce_slice();
  const bool gathered = gather_slice();
  return published || reduced || gathered;
}

int Fused::waits_for() {
  const auto here = [this](uint32_t rank) {
    switch (mode_) {
      case Mode::meeting:
        return direct_.announced(rank);
      case Mode::direct:
        return direct_.finished(rank);
      case Mode::staged:
        break;
    }
    if (path_ == Path::one_shot) return published_one_shot(rank);
    if (path_ == Path::two_level) {
      const uint32_t group = levels_.group_of(rank);
      if (group == levels_.group_of(self_)) return group_folded_ || published_one_shot(rank);
      return rank != levels_.partner(group, levels_.place_of(self_)) || published_group(rank);
    }
    return (reduced_ == published_ || reached(rank, line::publish, reduced_)) &&
           (gathered_ == reduced_ || reached(rank, line::result, gathered_));
  };
  for (uint32_t rank = 0; rank < nranks_ && !done_; ++rank) {
    if (rank != self_ && !here(rank)) return int(rank);
  }
  return -1;
}

}  // namespace tutti::plan
