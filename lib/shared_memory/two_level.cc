#include "lib/shared_memory/two_level.h"

#include <cstring>

namespace tutti::shared {

TwoLevel::TwoLevel(Staging& staging, uint32_t group_size)
    : staging_(staging), levels_(staging.nranks(), group_size), operands_(staging.nranks()) {
  const uint32_t self = staging_.self(), own = levels_.group_of(self);
  for (uint32_t rank = 0; rank < staging_.nranks(); ++rank) {
    group_readers_ +=
        levels_.group_of(rank) != own && levels_.partner(own, levels_.place_of(rank)) == self;
  }
}

std::byte* TwoLevel::vector_of(uint32_t rank) const {
  if (call_.bytes() <= inline_bytes) return staging_.flags().at(rank, vector_line()).payload;
  return staging_.resident(rank, sequence_);
}

std::byte* TwoLevel::group_result(uint32_t rank) const {
  if (call_.bytes() <= inline_bytes) return staging_.flags().at(rank, group_line()).payload;
  return staging_.resident(rank, sequence_) + staging_.tuning().resident_bytes / 2;
}

void TwoLevel::start(const AllreduceCall& call) {
  call_ = call;
  done_ = group_folded_ = false;
  staging_.begin_call();
  sequence_ = staging_.next_resident();
  const size_t bytes = call_.bytes();
  std::byte* const to = vector_of(staging_.self());
  slots::will_write(to, bytes);
  if (bytes <= inline_bytes) {
    slots::copy_short(to, call_.input, bytes);
  } else {
    std::memcpy(to, call_.input, bytes);
  }
  staging_.flags().post(vector_line(), sequence_, call_.digest);
}

bool TwoLevel::fold_group() {
  const uint32_t self = staging_.self(), group = levels_.group_of(self);
  const uint32_t members = levels_.size(group);
  const size_t bytes = call_.bytes();
  for (uint32_t place = 0; place < members; ++place) {
    const uint32_t rank = levels_.rank_at(group, place);
    if (rank != self && !published_vector(rank)) return false;
    operands_[place] = rank == self ? call_.input : vector_of(rank);
    if (rank != self) slots::will_read(operands_[place], bytes);
  }
  std::byte* const result = group_result(self);
  slots::will_write(result, bytes);
  if (bytes <= inline_bytes) {
    alignas(line_bytes) std::byte folded[inline_bytes];
    call_.kernels->reduce(folded, operands_.data(), members, call_.count);
    slots::copy_short(result, folded, bytes);
  } else {
    call_.kernels->reduce(result, operands_.data(), members, call_.count);
  }
  group_folded_ = true;
  staging_.flags().post(group_line(), sequence_, call_.digest);
  return true;
}

bool TwoLevel::fold_groups() {
  const uint32_t self = staging_.self();
  const size_t bytes = call_.bytes();
  for (uint32_t group = 0; group < levels_.groups; ++group) {
    const bool own = group == levels_.group_of(self);
    const uint32_t rank = own ? self : levels_.partner(group, levels_.place_of(self));
    if (!own && !published_group(rank)) return false;
    operands_[group] = group_result(rank);
    if (!own) slots::will_read(operands_[group], bytes);
  }
  call_.kernels->reduce(call_.output, operands_.data(), levels_.groups, call_.count);
  if (call_.kernels->divide != nullptr) {
    call_.kernels->divide(call_.output, call_.count, staging_.nranks());
  }
  const uint64_t mates = levels_.size(levels_.group_of(self)) - 1;
  const uint64_t sent = mates + group_readers_, received = mates + levels_.groups - 1;
  transfers_.sent(sent, sent * bytes);
  transfers_.received(received, received * bytes);
  done_ = true;
  return true;
}

int TwoLevel::waits_for() const {
  const uint32_t self = staging_.self();
  const auto here = [&](uint32_t rank) {
    const uint32_t group = levels_.group_of(rank);
    if (group == levels_.group_of(self)) return group_folded_ || published_vector(rank);
    return rank != levels_.partner(group, levels_.place_of(self)) || published_group(rank);
  };
  for (uint32_t rank = 0; rank < staging_.nranks() && !done_; ++rank) {
    if (rank != self && !here(rank)) return int(rank);
  }
  return -1;
}

}  // namespace tutti::shared
