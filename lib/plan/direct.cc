#include "lib/plan/direct.h"

#include <algorithm>
#include <cstring>

#include "lib/schedule/chunks.h"

namespace tutti::plan {

namespace {

constexpr size_t piece_bytes = 4 << 10;    // reduced, then copied from the innermost cache
constexpr size_t slice_bytes = 256 << 10;  // between two looks at the clock and the abort word

// What a rank posts.
struct Places {
  shm::Place input, output;
};
static_assert(sizeof(Places) <= sizeof(shm::FlagLine::payload));

}  // namespace

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
  shared_ = false;
  finished_peers_ = 0;
  shm::fill_line(board_.at(board_.self(), line::places).payload, &mine, sizeof(mine));
  board_.post(line::places, turn, call.digest);
  return true;
}

bool Direct::announced(uint32_t rank) const {
  return board_.posted(rank, line::places, turn_, call_.digest);
}

bool Direct::finished(uint32_t rank) const {
  return board_.posted(rank, line::finish, turn_, call_.digest);
}

Status Direct::begin() {
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
  while (at_ < slice_end) {
    const size_t bytes = std::min<uint64_t>(piece_bytes, slice_end - at_);
    reduce_piece(at_, bytes);
    at_ += bytes;
  }
  if (at_ < end_) return;
  shared_ = true;
  board_.post(line::finish, turn_, call_.digest);
}

void Direct::reduce_piece(uint64_t at, size_t bytes) {
  const size_t elements = bytes / call_.element_size;
  std::byte* const own = call_.output + at;
  if (board_.nranks() == 2 && call_.kernels.divide == nullptr) {
    call_.kernels.reduce2_twice(own, outputs_[1 - board_.self()] + at, inputs_[0] + at,
                                inputs_[1] + at, elements);
    return;
  }
  for (uint32_t rank = 0; rank < board_.nranks(); ++rank) operands_[rank] = inputs_[rank] + at;
  call_.kernels.reduce(own, operands_.data(), board_.nranks(), elements);
  if (call_.kernels.divide != nullptr) call_.kernels.divide(own, elements, board_.nranks());
  for (uint32_t rank = 0; rank < board_.nranks(); ++rank) {
    if (rank != board_.self()) std::memcpy(outputs_[rank] + at, own, bytes);
  }
}

}  // namespace tutti::plan
