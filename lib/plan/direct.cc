#include "lib/plan/direct.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "lib/cache.h"
#include "lib/reduce/copy.h"
#include "lib/schedule/chunks.h"

namespace tutti::plan {

namespace {

constexpr size_t piece_bytes = 4 << 10;  // reduced, then copied from the innermost cache
constexpr size_t streamed_piece_bytes = 1 << 10;
constexpr size_t slice_bytes = 256 << 10;  // between two looks at the clock and the abort word

// What a rank posts.
struct Places {
  shm::Place input, output;
};
static_assert(sizeof(Places) <= sizeof(shm::FlagLine::payload));

}  // namespace

bool exceeds_cache(size_t vector_bytes, uint32_t nranks) {
  return vector_bytes > last_level_cache_bytes() / (2 * nranks);
}

Direct::Direct(Board& board, const shm::Regions& regions)
    : board_(board),
      regions_(regions),
      inputs_(board.nranks()),
      outputs_(board.nranks()),
      operands_(board.nranks()) {}

bool Direct::announce(const FusedCall& call, uint32_t turn) {
  Places mine;
  if (!regions_.find(call.input, call.bytes(), &mine.input) ||
      !regions_.find(call.output, call.bytes(), &mine.output)) {
    return false;
  }
  call_ = call;
  turn_ = turn;
  streams_ = exceeds_cache(call.bytes(), board_.nranks());
  shared_ = false;
  finished_peers_ = 0;
  std::memcpy(board_.at(board_.self(), line::places).payload, &mine, sizeof(mine));
  board_.post(line::places, turn, call.digest);
  return true;
}

bool Direct::announced(uint32_t rank) const {
  return board_.posted(rank, line::places, turn_, call_.digest);
}

bool Direct::finished(uint32_t rank) const {
  return board_.posted(rank, line::finish, turn_, call_.digest);
}

void Direct::withdraw() {
  board_.clear(line::places);
  if (!regions_.may_vanish()) return;
  // Against begin(): either it sees that we have gone, or we see that it has begun.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint32_t rank = 0; rank < board_.nranks(); ++rank) {
    if (rank == board_.self()) continue;
    while (board_.flag(rank, line::begun) == shm::make_flag(turn_, call_.digest) &&
           !finished(rank)) {
      std::this_thread::yield();
    }
  }
}

Status Direct::begin() {
  if (regions_.may_vanish()) {
    board_.post(line::begun, turn_, call_.digest);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (uint32_t rank = 0; rank < board_.nranks(); ++rank) {
      if (rank == board_.self() || announced(rank)) continue;
      board_.clear(line::begun);
      return {TUTTI_ABORTED, {}};  // the link knows why
    }
  }
  for (uint32_t rank = 0; rank < board_.nranks(); ++rank) {
    if (rank == board_.self()) {
      inputs_[rank] = call_.input;
      outputs_[rank] = call_.output;
      continue;
    }
    Places places;
    std::memcpy(&places, board_.at(rank, line::places).payload, sizeof(places));
    inputs_[rank] = regions_.at(rank, places.input, call_.bytes());
    outputs_[rank] = regions_.at(rank, places.output, call_.bytes());
    if (inputs_[rank] == nullptr || outputs_[rank] == nullptr) {
      return {TUTTI_MISMATCH,
              "rank " + std::to_string(rank) + " passed symmetric memory that rank " +
                  std::to_string(board_.self()) + " has freed",
              int(rank)};
    }
  }
  const schedule::ChunkMap shares(call_.count, board_.nranks(),
                                  shm::line_bytes / call_.element_size);
  at_ = shares.begin(board_.self()) * call_.element_size;
  end_ = at_ + shares.size(board_.self()) * call_.element_size;
  return {};
}

bool Direct::advance() {
  if (!shared_) {
    reduce_slice();
    return true;
  }
  for (; finished_peers_ < board_.nranks(); ++finished_peers_) {
    if (finished_peers_ != board_.self() && !finished(finished_peers_)) return false;
  }
  return true;
}

void Direct::reduce_slice() {
  const uint64_t slice_end = std::min<uint64_t>(end_, at_ + slice_bytes);
  const bool pair = board_.nranks() == 2 && call_.kernels.divide == nullptr;
  const size_t most = pair ? slice_bytes : streams_ ? streamed_piece_bytes : piece_bytes;
  while (at_ < slice_end) {
    const size_t bytes = std::min<uint64_t>(most, slice_end - at_);
    pair ? reduce_pair(at_, bytes) : reduce_piece(at_, bytes);
    at_ += bytes;
  }
  if (streams_) stream_fence();
  if (at_ < end_) return;
  shared_ = true;
  board_.post(line::finish, turn_, call_.digest);
}

void Direct::reduce_pair(uint64_t at, size_t bytes) {
  call_.kernels.reduce2_twice(outputs_[0] + at, outputs_[1] + at, inputs_[0] + at, inputs_[1] + at,
                              bytes / call_.element_size,
                              streams_ ? Stores::stream_both : Stores::cached);
}

void Direct::reduce_piece(uint64_t at, size_t bytes) {
  const size_t elements = bytes / call_.element_size;
  alignas(shm::line_bytes) std::byte block[streamed_piece_bytes];
  std::byte* const result = streams_ ? block : call_.output + at;
  for (uint32_t rank = 0; rank < board_.nranks(); ++rank) operands_[rank] = inputs_[rank] + at;
  call_.kernels.reduce(result, operands_.data(), board_.nranks(), elements);
  if (call_.kernels.divide != nullptr) call_.kernels.divide(result, elements, board_.nranks());
  for (uint32_t rank = 0; rank < board_.nranks(); ++rank) {
    if (streams_) {
      stream_copy(outputs_[rank] + at, result, bytes);
    } else if (rank != board_.self()) {
      std::memcpy(outputs_[rank] + at, result, bytes);
    }
  }
}

}  // namespace tutti::plan
