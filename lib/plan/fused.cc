#include "lib/plan/fused.h"

#include <algorithm>
#include <cstring>

#include "lib/schedule/chunks.h"

namespace tutti::plan {

namespace {

// Flag lines of a rank, and its data: two one-shot vectors, then the slices.
constexpr uint32_t one_shot_line = 0;  // 2 of them
constexpr uint32_t publish_line = 2;   // `window` of them
constexpr uint32_t result_line = 6;    // `window` of them
constexpr size_t most_one_shot_bytes = 64 << 10;
constexpr size_t most_slice_bytes = 32 << 10;
constexpr size_t line_bytes = shm::line_bytes;
constexpr size_t inline_bytes = sizeof(shm::FlagLine::payload);

}  // namespace

Fused::Fused(shm::SlotLink& link)
    : link_(link),
      cells_(*link.cells()),
      nranks_(cells_.nranks()),
      self_(cells_.rank()),
      one_shot_bytes_(most_one_shot_bytes),
      operands_(nranks_) {
  const size_t rest = cells_.bytes() - 2 * most_one_shot_bytes;
  slice_bytes_ = std::min(most_slice_bytes,
                          rest / (window * (nranks_ + 1)) / line_bytes * line_bytes);
  for (uint32_t rank = 0; rank < nranks_; ++rank) flags_.push_back(cells_.flags(rank));
}

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
  shm::FlagLine& line = flags_[self_][one_shot_line + cell];
  std::byte* to = bytes <= inline_bytes ? line.payload : cells_.data(self_) + cell * one_shot_bytes_;
  std::memcpy(to, call.input, bytes);
  set_flag(one_shot_line + cell, calls_);
}

bool Fused::advance_one_shot() {
  const uint32_t cell = calls_ & 1;
  const uint64_t expected = shm::make_flag(calls_, call_.digest);
  for (; ready_peers_ < nranks_; ++ready_peers_) {
    if (ready_peers_ == self_) continue;
    const uint64_t flag =
        flags_[ready_peers_][one_shot_line + cell].flag.load(std::memory_order_acquire);
    if (flag == expected) continue;
    if (shm::flag_sequence(flag) == calls_) link_.note_stranger(int(ready_peers_));
    return false;
  }
  const size_t bytes = call_.count * call_.element_size;
  const auto vector_of = [&](uint32_t rank) -> const std::byte* {
    if (rank == self_) return call_.input;
    return bytes <= inline_bytes ? flags_[rank][one_shot_line + cell].payload
                                 : cells_.data(rank) + cell * one_shot_bytes_;
  };
  if (nranks_ == 2) {
    call_.kernels.reduce2(call_.output, vector_of(0), vector_of(1), call_.count);
  } else {
    for (uint32_t rank = 0; rank < nranks_; ++rank) operands_[rank] = vector_of(rank);
    call_.kernels.reduce(call_.output, operands_.data(), nranks_, call_.count);
  }
  finish(call_.output, call_.count);
  done_ = true;
  return true;
}

// ---------------------------------------------------------------- two-shot

void Fused::start_two_shot(const Call& call) {
  slices_ += rounds_;
  call_ = call;
  one_shot_ = false;
  done_ = false;
  const schedule::ChunkMap shards(call.count, nranks_, line_bytes / call.element_size);
  shard_bytes_ = 0;
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    shard_bytes_ = std::max<uint64_t>(shard_bytes_, shards.size(rank) * call.element_size);
  }
  rounds_ = uint32_t((shard_bytes_ + slice_bytes_ - 1) / slice_bytes_);
  published_ = reduced_ = gathered_ = 0;
}

Fused::Slice Fused::slice_of(uint32_t owner, uint32_t index) const {
  const schedule::ChunkMap shards(call_.count, nranks_, line_bytes / call_.element_size);
  const uint64_t begin = shards.begin(owner) * call_.element_size;
  const uint64_t bytes = shards.size(owner) * call_.element_size;
  const uint64_t from = std::min<uint64_t>(bytes, uint64_t(index) * slice_bytes_);
  return {begin + from, std::min<uint64_t>(slice_bytes_, bytes - from)};
}

std::byte* Fused::published(uint32_t rank, uint32_t index, uint32_t owner) const {
  const size_t slot = (slices_ + index) % window;
  return cells_.data(rank) + 2 * one_shot_bytes_ + (slot * nranks_ + owner) * slice_bytes_;
}

std::byte* Fused::result(uint32_t rank, uint32_t index) const {
  const size_t slot = (slices_ + index) % window;
  return cells_.data(rank) + 2 * one_shot_bytes_ + (window * nranks_ + slot) * slice_bytes_;
}

bool Fused::all_set(uint32_t first, uint32_t index) {
  const uint32_t sequence = slices_ + index + 1;
  const uint32_t line = first + (slices_ + index) % window;
  const uint64_t expected = shm::make_flag(sequence, call_.digest);
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank == self_) continue;
    const uint64_t flag = flags_[rank][line].flag.load(std::memory_order_acquire);
    if (flag == expected) continue;
    if (shm::flag_sequence(flag) == sequence) link_.note_stranger(int(rank));
    return false;
  }
  return true;
}

bool Fused::publish_slice() {
  if (published_ == rounds_ || published_ > gathered_ + 2) return false;
  for (uint32_t owner = 0; owner < nranks_; ++owner) {
    if (owner == self_) continue;
    const Slice slice = slice_of(owner, published_);
    std::memcpy(published(self_, published_, owner), call_.input + slice.offset, slice.bytes);
  }
  const uint32_t index = published_++;
  set_flag(publish_line + (slices_ + index) % window, slices_ + index + 1);
  return true;
}

bool Fused::reduce_slice() {
  if (reduced_ == published_ || !all_set(publish_line, reduced_)) return false;
  const Slice slice = slice_of(self_, reduced_);
  const uint64_t elements = slice.bytes / call_.element_size;
  std::byte* out = call_.output + slice.offset;
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    operands_[rank] = rank == self_ ? call_.input + slice.offset : published(rank, reduced_, self_);
  }
  if (nranks_ == 2) {
    call_.kernels.reduce2(out, operands_[0], operands_[1], elements);
  } else {
    call_.kernels.reduce(out, operands_.data(), nranks_, elements);
  }
  finish(out, elements);
  std::memcpy(result(self_, reduced_), out, slice.bytes);
  const uint32_t index = reduced_++;
  set_flag(result_line + (slices_ + index) % window, slices_ + index + 1);
  return true;
}

bool Fused::gather_slice() {
  if (gathered_ == reduced_ || !all_set(result_line, gathered_)) return false;
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

int Fused::waits_for() const {
  const uint32_t cell = calls_ & 1;
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (rank == self_ || done_) continue;
    if (one_shot_) {
      const auto& line = flags_[rank][one_shot_line + cell];
      if (line.flag.load() != shm::make_flag(calls_, call_.digest)) return int(rank);
      continue;
    }
    for (const auto& [first, index, most] :
         {std::tuple{publish_line, reduced_, published_}, {result_line, gathered_, reduced_}}) {
      const auto& line = flags_[rank][first + (slices_ + index) % window];
      if (index < most &&
          line.flag.load() != shm::make_flag(slices_ + index + 1, call_.digest)) {
        return int(rank);
      }
    }
  }
  return -1;
}

}  // namespace tutti::plan
