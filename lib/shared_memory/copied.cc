#include "lib/shared_memory/copied.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "lib/shared_memory/two_shot.h"

namespace tutti::shared {

namespace {

constexpr size_t least_piece_bytes = 4 << 10;

}  // namespace

size_t Copied::piece_bytes() const {
  const size_t each = tuning_.copied_land_bytes / (flags_.nranks() - 1) / line_bytes * line_bytes;
  return std::max(each, std::min(least_piece_bytes, tuning_.copied_land_bytes));
}

bool Copied::is_possible(const AllreduceCall& call) {
  if (!call.copies && !single_copy_.always()) return false;
  if (single_copy_.answer() != SingleCopy::Answer::yes) return false;
  return reserve();
}

bool Copied::reserve() {
  if (!landed_.empty()) return true;
  try {
    landed_.resize((flags_.nranks() - 1) * piece_bytes());
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

Range Copied::share_of(uint32_t rank) const {
  const schedule::ChunkMap shares = shards_of(call_, flags_.nranks());
  const uint64_t begin = shares.begin(rank) * call_.element_size;
  return {begin, begin + shares.size(rank) * call_.element_size};
}

void Copied::begin(const AllreduceCall& call, uint32_t turn) {
  call_ = call;
  turn_ = turn;
  done_ = stopped_ = posted_reduced_ = posted_finish_ = false;
  failure_ = {};
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) places_[rank] = rendezvous_.of(rank);
  std::fill(gathered_.begin(), gathered_.end(), 0);
  left_ = share_of(flags_.self());
}

bool Copied::copy(uint32_t rank, uint64_t address, std::byte* to, size_t bytes) {
  const auto* const from = reinterpret_cast<const std::byte*>(address);
  const int error = single_copy_.read(rank, from, to, bytes);
  slots::fence(std::memory_order_acquire);  // orders the copy before the look at the flag
  if (!rendezvous_.posted(rank)) {
    stopped_ = true;
    return false;
  }
  slots::will_read(from, bytes);
  if (error == 0) return true;
  stopped_ = true;
  if (error != ESRCH) {  // else the link finds that it died
    failure_ = {TUTTI_INVALID,
                "cannot read the vector of " + rank_name(rank) + ": " + std::strerror(error),
                int(rank)};
    done_ = true;
  }
  return false;
}

bool Copied::reduce_piece() {
  const uint32_t nranks = flags_.nranks(), self = flags_.self();
  const size_t most = piece_bytes();
  const size_t bytes = std::min<uint64_t>(most, left_.end - left_.begin);
  std::byte* land = landed_.data();
  for (uint32_t rank = 0; rank < nranks; ++rank) {
    if (rank == self) {
      operands_[rank] = call_.input + left_.begin;
      continue;
    }
    if (!copy(rank, places_[rank].input_address + left_.begin, land, bytes)) return false;
    operands_[rank] = land;
    land += most;
  }
  std::byte* const to = call_.output + left_.begin;
  slots::will_write(to, bytes);
  call_.kernels->combine(to, operands_.data(), nranks, bytes / call_.element_size);
  left_.begin += bytes;
  return true;
}

// Of whichever share is there.
bool Copied::gather_piece() {
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    if (rank == flags_.self()) continue;
    const Range share = share_of(rank);
    const uint64_t at = share.begin + gathered_[rank];
    if (at == share.end || !reduced(rank)) continue;
    const size_t bytes = std::min<uint64_t>(tuning_.copied_gather_bytes, share.end - at);
    slots::will_write(call_.output + at, bytes);
    if (!copy(rank, places_[rank].output_address + at, call_.output + at, bytes)) return false;
    gathered_[rank] += bytes;
    return true;
  }
  return false;
}

bool Copied::advance() {
  if (done_) return true;  // it has failed
  if (stopped_) return false;
  if (left_.begin != left_.end) return reduce_piece() || done_;
  if (!posted_reduced_) {
    posted_reduced_ = true;
    flags_.post(line::reduced, turn_, call_.digest);
    return true;
  }
  if (!posted_finish_) {
    if (gather_piece()) return true;
    if (stopped_) return done_;
    for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
      const Range share = share_of(rank);
      const bool all = gathered_[rank] == share.end - share.begin;
      // An owner of nothing has its input read by nobody, but reads the others'.
      if (rank != flags_.self() && (!all || !reduced(rank))) return false;
    }
    posted_finish_ = true;
    flags_.post(line::finish, turn_, call_.digest);
    return true;
  }
  if (flags_.missing(line::finish, turn_, call_.digest) >= 0) return false;
  done_ = true;
  return true;
}

int Copied::waits_for() const {
  if (done_) return -1;
  return flags_.missing(posted_finish_ ? line::finish : line::reduced, turn_, call_.digest);
}

}  // namespace tutti::shared
