#include "lib/plan/fused.h"

#include <algorithm>
#include <cstring>

#include "lib/schedule/chunks.h"

namespace tutti::plan {

namespace {

// Flag lines of a rank: two for one-shot vectors, one that counts published slices, one results.
// Every other line only: processors fetch lines in pairs, so neighbours are not independent of each
// other.
constexpr uint32_t one_shot_line = 0;
constexpr uint32_t publish_line = 4;
constexpr uint32_t result_line = 6;

constexpr size_t line_bytes = shm::line_bytes;
constexpr size_t inline_bytes = sizeof(shm::FlagLine::payload);
constexpr size_t resident_bytes =
    8 << 10;  // up to here a vector is fastest in one of two fixed places
constexpr size_t longest_one_shot = 64 << 10;
constexpr size_t longest_slice = 64 << 10;
constexpr size_t rotated_bytes = 1 << 20;  // more would only push the vectors out of cache
constexpr uint32_t longest_window = 16;
constexpr uint32_t least_window = 4;
constexpr size_t piece_bytes = 4 << 10;  // reduced, then copied from the innermost cache

size_t round_up(size_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

}  // namespace

// The cells of a rank: two resident vectors, the publish arena, the result arena.
Fused::Fused(shm::SlotLink& link)
    : link_(link),
      cells_(*link.cells()),
      nranks_(cells_.nranks()),
      self_(cells_.rank()),
      operands_(nranks_),
      piece_(nranks_) {
  const size_t arenas = cells_.bytes() - 2 * resident_bytes;
  result_arena_ = arenas / 3 / line_bytes * line_bytes;
  publish_arena_ = (arenas - result_arena_) / line_bytes * line_bytes;
  const size_t fits = publish_arena_ / (least_window * (nranks_ - 1));
  most_slice_bytes_ = std::min(longest_slice, fits / line_bytes * line_bytes);
  for (uint32_t rank = 0; rank < nranks_; ++rank) flags_.push_back(cells_.flags(rank));
}

size_t Fused::one_shot_bytes() const { return longest_one_shot; }

void Fused::set_flag(uint32_t line, uint32_t sequence) {
  flags_[self_][line].flag.store(shm::make_flag(sequence, call_.digest), std::memory_order_release);
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank != self_) link_.wake(rank);
  }
}

// ---------------------------------------------------------------- one-shot

void Fused::start_one_shot(const Call& call) {
  call_ = call;
  one_shot_ = true;
  done_ = false;
  ready_peers_ = 0;
  ++calls_;
  const size_t bytes = call.count * call.element_size;
  const uint32_t cell = calls_ & 1;
  if (bytes <= inline_bytes) {
    shm::fill_line(flags_[self_][one_shot_line + 2 * cell].payload, call.input, bytes);
  } else {
    block_ = cell * resident_bytes;
    if (bytes > resident_bytes) {
      if (next_block_ + bytes > publish_arena_) next_block_ = 0;
      block_ = 2 * resident_bytes + next_block_;
      next_block_ += round_up(bytes);
    }
    std::memcpy(cells_.data(self_) + block_, call.input, bytes);
  }
  set_flag(one_shot_line + 2 * cell, calls_);
}

bool Fused::advance_one_shot() {
  const uint32_t cell = calls_ & 1;
  const uint64_t expected = shm::make_flag(calls_, call_.digest);
  for (; ready_peers_ < nranks_; ++ready_peers_) {
    if (ready_peers_ == self_) continue;
    const uint64_t flag =
        flags_[ready_peers_][one_shot_line + 2 * cell].flag.load(std::memory_order_acquire);
    if (flag == expected) continue;
    if (shm::flag_sequence(flag) == calls_) link_.note_stranger(int(ready_peers_));
    return false;
  }
  const bool in_line = call_.count * call_.element_size <= inline_bytes;
  const auto vector_of = [&](uint32_t rank) -> const std::byte* {
    if (rank == self_) return call_.input;
    return in_line ? flags_[rank][one_shot_line + 2 * cell].payload : cells_.data(rank) + block_;
  };
  if (nranks_ == 2) {
    call_.kernels.reduce2(call_.output, vector_of(0), vector_of(1), call_.count);
  } else {
    for (uint32_t rank = 0; rank < nranks_; ++rank) operands_[rank] = vector_of(rank);
    call_.kernels.reduce(call_.output, operands_.data(), nranks_, call_.count);
  }
  if (call_.kernels.divide != nullptr) call_.kernels.divide(call_.output, call_.count, nranks_);
  done_ = true;
  return true;
}

// ---------------------------------------------------------------- two-shot

void Fused::start_two_shot(const Call& call) {
  slices_ += rounds_;
  call_ = call;
  one_shot_ = false;
  done_ = false;
  published_ = reduced_ = gathered_ = 0;
  // Slices are equally long, so that none is a mere rest.
  const schedule::ChunkMap shards(call.count, nranks_, line_bytes / call.element_size);
  const size_t shard_bytes = std::max(shards.size(0), shards.size(nranks_ - 1)) * call.element_size;
  rounds_ = uint32_t((shard_bytes + most_slice_bytes_ - 1) / most_slice_bytes_);
  slice_bytes_ = round_up((shard_bytes + rounds_ - 1) / rounds_);
  // All that a call may overwrite of an earlier one was read by then, so a new slice size may use
  // the arenas from anywhere; going on where the last call ended keeps the blocks rotating.
  const size_t stride = slice_bytes_ * (nranks_ - 1);
  publish_slots_ = uint32_t(std::max(std::min(publish_arena_, rotated_bytes), 4 * stride) / stride);
  result_slots_ = uint32_t(std::min(result_arena_, rotated_bytes) / slice_bytes_);
  window_ = std::min({publish_slots_, result_slots_, longest_window});
  first_slot_ = uint32_t((next_block_ + stride - 1) / stride);
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
  const uint64_t flag = flags_[rank][line].flag.load(std::memory_order_acquire);
  // How many slices of this call; more than it has when the peer is in a later one.
  const auto count = int32_t(shm::flag_sequence(flag) - slices_);
  if (count <= int32_t(index)) return false;
  if (count > int32_t(rounds_) || shm::flag_digest(flag) == call_.digest) return true;
  link_.note_stranger(int(rank));
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
  for (uint32_t owner = 0; owner < nranks_; ++owner) {
    if (owner == self_) continue;
    const Slice slice = slice_of(owner, published_);
    std::memcpy(published(self_, published_, owner), call_.input + slice.offset, slice.bytes);
  }
  ++published_;
  set_flag(publish_line, slices_ + published_);
  return true;
}

// Combines operands_ into what the peers will read, and copies that to `out`, a piece at a time.
void Fused::reduce_into(std::byte* out, std::byte* copy, size_t bytes) {
  for (size_t done = 0; done < bytes; done += piece_bytes) {
    const size_t now = std::min(piece_bytes, bytes - done);
    const size_t elements = now / call_.element_size;
    for (uint32_t rank = 0; rank < nranks_; ++rank) {
      piece_[rank] = static_cast<const std::byte*>(operands_[rank]) + done;
    }
    if (nranks_ == 2) {
      call_.kernels.reduce2(copy + done, piece_[0], piece_[1], elements);
    } else {
      call_.kernels.reduce(copy + done, piece_.data(), nranks_, elements);
    }
    if (call_.kernels.divide != nullptr) call_.kernels.divide(copy + done, elements, nranks_);
    std::memcpy(out + done, copy + done, now);
  }
}

bool Fused::reduce_slice() {
  if (reduced_ == published_ || !all_reached(publish_line, reduced_)) return false;
  const Slice slice = slice_of(self_, reduced_);
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    operands_[rank] = rank == self_ ? call_.input + slice.offset : published(rank, reduced_, self_);
  }
  reduce_into(call_.output + slice.offset, result(self_, reduced_), slice.bytes);
  ++reduced_;
  set_flag(result_line, slices_ + reduced_);
  return true;
}

bool Fused::gather_slice() {
  if (gathered_ == reduced_ || !all_reached(result_line, gathered_)) return false;
  for (uint32_t owner = 0; owner < nranks_; ++owner) {
    if (owner == self_) continue;
    const Slice slice = slice_of(owner, gathered_);
    std::memcpy(call_.output + slice.offset, result(owner, gathered_), slice.bytes);
  }
  done_ = ++gathered_ == rounds_;
  return true;
}

bool Fused::advance_two_shot() {
  const bool published = publish_slice();
  const bool reduced = reduce_slice();
  const bool gathered = gather_slice();
  return published || reduced || gathered;
}

int Fused::waits_for() {
  const uint32_t cell = calls_ & 1;
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank == self_ || done_) continue;
    const bool here = one_shot_
                          ? flags_[rank][one_shot_line + 2 * cell].flag.load() ==
                                shm::make_flag(calls_, call_.digest)
                          : (reduced_ == published_ || reached(rank, publish_line, reduced_)) &&
                                (gathered_ == reduced_ || reached(rank, result_line, gathered_));
    if (!here) return int(rank);
  }
  return -1;
}

}  // namespace tutti::plan
