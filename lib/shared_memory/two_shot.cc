#include "lib/shared_memory/two_shot.h"

#include <algorithm>

#include "lib/base/cache.h"
#include "lib/reduce/copy.h"

namespace tutti::shared {

namespace {

constexpr size_t most_piece_bytes = 16 << 10;  // the most of two_shot_piece_bytes

}  // namespace

schedule::ChunkMap shards_of(const AllreduceCall& call, uint32_t nranks) {
  return {call.count, nranks, line_bytes / call.element_size};
}

bool exceeds_cache(size_t vector_bytes, uint32_t nranks, const Tuning& tuning) {
  return double(vector_bytes) > tuning.result_share * double(tuning.last_level_cache()) / nranks;
}

void count_two_shot(const AllreduceCall& call, uint32_t nranks, uint32_t self, Transfers* out) {
  const schedule::ChunkMap shards = shards_of(call, nranks);
  const uint64_t own = shards.size(self) * call.element_size, peers = nranks - 1;
  uint64_t messages = own != 0 ? peers : 0;
  for (uint32_t owner = 0; owner < nranks; ++owner) {
    messages += owner != self && shards.size(owner) != 0;
  }
  const uint64_t bytes = call.bytes() - own + peers * own;
  out->sent(messages, bytes);
  out->received(messages, bytes);
}

TwoShot::TwoShot(Staging& staging)
    : staging_(staging), operands_(staging.nranks()), piece_(staging.nranks()) {
  last_level_cache_bytes();  // here, because the first look-up takes longer than a call
}

void TwoShot::stage() {
  const uint32_t nranks = staging_.nranks();
  streams_ = exceeds_cache(call_.bytes(), nranks, staging_.tuning());
  staging_.writer().begin(call_.stores);
  published_ = reduced_ = gathered_ = 0;
  // Slices are equally long, so that none is a short remainder.
  const schedule::ChunkMap shards = shards_of(call_, nranks);
  const size_t shard_bytes = std::max(shards.size(0), shards.size(nranks - 1)) * call_.element_size;
  const size_t most = staging_.most_slice_bytes();
  slices_ = uint32_t((shard_bytes + most - 1) / most);
  slots_ = staging_.place_slots(whole_lines((shard_bytes + slices_ - 1) / slices_), slices_);
}

TwoShot::Slice TwoShot::slice_of(uint32_t owner, uint32_t index) const {
  const schedule::ChunkMap shards = shards_of(call_, staging_.nranks());
  const uint64_t begin = shards.begin(owner) * call_.element_size;
  const uint64_t bytes = shards.size(owner) * call_.element_size;
  const uint64_t from = std::min<uint64_t>(bytes, uint64_t(index) * slots_.slice_bytes);
  return {begin + from, std::min<uint64_t>(slots_.slice_bytes, bytes - from)};
}

std::byte* TwoShot::published(uint32_t rank, uint32_t index, uint32_t owner) const {
  const size_t slot = (slots_.first + index) % slots_.published;
  const size_t place = owner < rank ? owner : owner - 1;  // nothing is published for oneself
  return staging_.published(rank, slot * slots_.stride + place * slots_.slice_bytes);
}

std::byte* TwoShot::result(uint32_t rank, uint32_t index) const {
  const size_t slot = (slots_.first + index) % slots_.results;
  return staging_.result(rank, slot * slots_.slice_bytes);
}

bool TwoShot::reached(uint32_t rank, uint32_t line, uint32_t index) {
  const uint64_t flag = staging_.flags().flag(rank, line);
  // How many slices of this call the peer has posted; more than slices_ if it is in a later call.
  const auto count = int32_t(flag_sequence(flag) - slices_before_);
  if (count <= int32_t(index)) return false;
  if (count > int32_t(slices_) || flag_digest(flag) == call_.digest) return true;
  staging_.flags().note_mismatched(rank);
  return false;
}

bool TwoShot::all_reached(uint32_t line, uint32_t index) {
  for (uint32_t rank = 0; rank < staging_.nranks(); ++rank) {
    if (rank != staging_.self() && !reached(rank, line, index)) return false;
  }
  return true;
}

bool TwoShot::publish_slice() {
  if (published_ == slices_ || published_ + 2 > gathered_ + slots_.window) return false;
  // Until all peers have published in this call, some may still read what the call before left.
  if (reduced_ == 0 && published_ == slots_.clear) return false;
  for (uint32_t owner = 0; owner < staging_.nranks(); ++owner) {
    if (owner == staging_.self()) continue;
    const Slice slice = slice_of(owner, published_);
    std::byte* const to = published(staging_.self(), published_, owner);
    slots::will_write(to, slice.bytes);
    staging_.writer().copy(to, call_.input + slice.offset, slice.bytes);
  }
  ++published_;
  staging_.flags().post(line::publish, slices_before_ + published_, call_.digest);
  return true;
}

// Combines operands_ into what the peers will read, and copies that to `out`, a piece at a time.
void TwoShot::reduce_into(std::byte* out, std::byte* copy, size_t bytes) {
  const uint32_t nranks = staging_.nranks();
  const bool non_temporal = staging_.writer().non_temporal();
  // Writes both places in one pass; with non-temporal stores the kernel can do so only where they
  // are equally aligned.
  const bool own_first = call_.own_first && !non_temporal;
  const bool at_once = nranks == 2 && call_.kernels->divide == nullptr && !own_first &&
                       (!non_temporal || size_t(out - copy) % line_bytes == 0);
  alignas(line_bytes) std::byte block[most_piece_bytes];
  const size_t piece_bytes = staging_.tuning().two_shot_piece_bytes;
  for (size_t done = 0; done < bytes; done += piece_bytes) {
    const size_t now = std::min(piece_bytes, bytes - done);
    const size_t elements = now / call_.element_size;
    for (uint32_t rank = 0; rank < nranks; ++rank) {
      piece_[rank] = static_cast<const std::byte*>(operands_[rank]) + done;
    }
    if (at_once) {
      const Stores stores = non_temporal && streams_   ? Stores::stream_both
                            : non_temporal || streams_ ? Stores::stream_other
                                                       : Stores::cached;
      std::byte* const first = non_temporal ? out : copy;
      std::byte* const other = non_temporal ? copy : out;
      call_.kernels->reduce2_twice(first + done, other + done, piece_[0], piece_[1], elements,
                                   stores);
      continue;
    }
    std::byte* const result = non_temporal || (own_first && streams_) ? block
                              : own_first                             ? out + done
                                                                      : copy + done;
    call_.kernels->reduce(result, piece_.data(), nranks, elements);
    if (call_.kernels->divide != nullptr) call_.kernels->divide(result, elements, nranks);
    if (non_temporal) stream_copy(copy + done, result, now);
    if (own_first) copy_over(copy + done, result, now);
    if (result != out + done) copy_bytes(out + done, result, now, streams_);
  }
  if (non_temporal) stream_fence();
}

bool TwoShot::reduce_slice() {
  if (reduced_ == published_ || !all_reached(line::publish, reduced_)) return false;
  const uint32_t self = staging_.self();
  const Slice slice = slice_of(self, reduced_);
  for (uint32_t rank = 0; rank < staging_.nranks(); ++rank) {
    if (rank == self) {
      operands_[rank] = call_.input + slice.offset;
    } else {
      operands_[rank] = published(rank, reduced_, self);
      slots::will_read(operands_[rank], slice.bytes);
    }
  }
  std::byte* const to = result(self, reduced_);
  slots::will_write(to, slice.bytes);
  reduce_into(call_.output + slice.offset, to, slice.bytes);
  ++reduced_;
  staging_.flags().post(line::result, slices_before_ + reduced_, call_.digest);
  return true;
}

bool TwoShot::gather_slice() {
  if (gathered_ == reduced_ || !all_reached(line::result, gathered_)) return false;
  const Tuning& tuning = staging_.tuning();
  for (uint32_t owner = 0; owner < staging_.nranks(); ++owner) {
    if (owner == staging_.self()) continue;
    const Slice slice = slice_of(owner, gathered_);
    std::byte* const to = call_.output + slice.offset;
    const std::byte* const from = result(owner, gathered_);
    slots::will_read(from, slice.bytes);
    fetch_bytes(to, from, slice.bytes, streams_, tuning.fetch_pages, tuning.fetch_ahead_bytes);
  }
  done_ = ++gathered_ == slices_;
  if (!done_) return true;
  if (streams_) stream_fence();
  count_two_shot(call_, staging_.nranks(), staging_.self(), &transfers_);
  return true;
}

bool TwoShot::advance() {
  const bool published = publish_slice();
  const bool reduced = reduce_slice();
  const bool gathered = gather_slice();
  return published || reduced || gathered;
}

int TwoShot::waits_for() {
  for (uint32_t rank = 0; rank < staging_.nranks() && !done_; ++rank) {
    if (rank == staging_.self()) continue;
    const bool here = (reduced_ == published_ || reached(rank, line::publish, reduced_)) &&
                      (gathered_ == reduced_ || reached(rank, line::result, gathered_));
    if (!here) return int(rank);
  }
  return -1;
}

}  // namespace tutti::shared
