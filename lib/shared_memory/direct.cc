#include "lib/shared_memory/direct.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/reduce/copy.h"
#include "lib/schedule/chunks.h"
#include "lib/shared_memory/two_shot.h"

namespace tutti::shared {

namespace {

constexpr size_t most_streamed_bytes = 16 << 10;  // the most of direct_streamed_bytes

}  // namespace

Direct::Direct(FlagLines& flags, const Regions& regions, Rendezvous& rendezvous,
               const Tuning& tuning)
    : flags_(flags),
      regions_(regions),
      access_(flags, regions),
      rendezvous_(rendezvous),
      tuning_(tuning),
      inputs_(flags.nranks()),
      outputs_(flags.nranks()),
      owners_(size_t{2} * flags.nranks()),
      operands_(flags.nranks()) {}

void Direct::withdraw() {
  rendezvous_.withdraw();
  let_go();
  access_.end();  // an operator may have thrown inside a slice
  access_.wait_for_others(turn_, call_.digest, [this](uint32_t rank) { return finished(rank); });
}

bool Direct::prepare(const AllreduceCall& call, uint32_t turn, Place* input, Place* output) {
  call_ = call;
  turn_ = turn;
  edges_ = regions_.edges_of(call.element_size);
  if (edges_.head + edges_.tail >= call.bytes() ||
      !regions_.find(call.input, call.bytes(), input) ||
      !regions_.find(call.output, call.bytes(), output)) {
    return false;
  }
  regions_.copy_edges(flags_.self(), edges_, call.input, call.bytes());
  return true;
}

Status Direct::begin() {
  streams_ = exceeds_cache(call_.bytes(), flags_.nranks(), tuning_);
  shared_ = withdrawn_ = false;
  finished_peers_ = 0;
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    if (rank == flags_.self()) {
      inputs_[rank] = call_.input;
      outputs_[rank] = call_.output;
      continue;
    }
    const Rendezvous::Places places = rendezvous_.of(rank);
    std::shared_ptr<void>* const owners = &owners_[size_t{2} * rank];
    inputs_[rank] = regions_.at(rank, places.input, call_.bytes(), &owners[0]);
    outputs_[rank] = regions_.at(rank, places.output, call_.bytes(), &owners[1]);
    if (inputs_[rank] == nullptr || outputs_[rank] == nullptr)
      return freed_here(rank, flags_.self());
  }
  const uint64_t within = call_.bytes() - edges_.head - edges_.tail;
  const schedule::ChunkMap shares(within / call_.element_size, flags_.nranks(),
                                  line_bytes / call_.element_size);
  const uint64_t begin = edges_.head + shares.begin(flags_.self()) * call_.element_size;
  one_shot_ = rendezvous_.one_shot();
  left_ = {begin, begin + shares.size(flags_.self()) * call_.element_size};
  then_ = {};
  if (one_shot_) {
    left_.end = edges_.head + within;
    then_ = {edges_.head, begin};
  }
  reduce_edges();
  return {};
}

void Direct::reduce_edges() {
  reduce_edge(0, edges_.head, &Regions::head_copy);
  reduce_edge(call_.bytes() - edges_.tail, edges_.tail, &Regions::tail_copy);
}

void Direct::reduce_edge(size_t at, size_t bytes, std::byte* (Regions::*copy)(uint32_t) const) {
  if (bytes == 0) return;
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    const std::byte* const copied = (regions_.*copy)(rank);
    slots::will_read(copied, bytes);
    operands_[rank] = copied;
  }
  const size_t elements = bytes / call_.element_size;
  std::byte* const result = call_.output + at;
  slots::will_write(result, bytes);
  call_.kernels->reduce(result, operands_.data(), flags_.nranks(), elements);
  if (call_.kernels->divide != nullptr) call_.kernels->divide(result, elements, flags_.nranks());
}

bool Direct::advance() {
  if (!shared_) {
    if (!withdrawn_) reduce_slice();
    return !withdrawn_;
  }
  for (; finished_peers_ < flags_.nranks(); ++finished_peers_) {
    if (finished_peers_ != flags_.self() && !finished(finished_peers_)) return false;
  }
  let_go();
  return true;
}

void Direct::let_go() {
  for (std::shared_ptr<void>& owner : owners_) owner.reset();
}

int Direct::waits_for() const {
  return done() ? -1 : flags_.missing(line::finish, turn_, call_.digest);
}

void Direct::reduce_slice() {
  withdrawn_ = !access_.begin(turn_, call_.digest, [this] { return rendezvous_.all_posted(); });
  if (withdrawn_) return;
  const uint64_t slice_end =
      std::min<uint64_t>(left_.end, left_.begin + tuning_.direct_slice_bytes);
  const bool pair = !one_shot_ && flags_.nranks() == 2 && call_.kernels->divide == nullptr &&
                    (streams_ || !call_.own_first);
  const size_t most = pair       ? tuning_.direct_slice_bytes
                      : streams_ ? tuning_.direct_streamed_bytes
                                 : tuning_.direct_piece_bytes;
  while (left_.begin < slice_end) {
    const size_t bytes = std::min<uint64_t>(most, slice_end - left_.begin);
    for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
      slots::will_read(inputs_[rank] + left_.begin, bytes);
      if (writes_to(rank)) slots::will_write(outputs_[rank] + left_.begin, bytes);
    }
    pair ? reduce_pair(left_.begin, bytes) : reduce_piece(left_.begin, bytes);
    left_.begin += bytes;
  }
  if (streams_) stream_fence();
  access_.end();
  if (left_.begin == left_.end) left_ = std::exchange(then_, {});
  if (left_.begin != left_.end) return;
  slots::fence(std::memory_order_acquire);  // orders the reads before the look at the flags
  withdrawn_ = !rendezvous_.all_posted();
  if (withdrawn_) return;
  shared_ = true;
  flags_.post(line::finish, turn_, call_.digest);
}

void Direct::reduce_pair(uint64_t at, size_t bytes) {
  call_.kernels->reduce2_twice(outputs_[0] + at, outputs_[1] + at, inputs_[0] + at, inputs_[1] + at,
                               bytes / call_.element_size,
                               streams_ ? Stores::stream_both : Stores::cached);
}

void Direct::reduce_piece(uint64_t at, size_t bytes) {
  const size_t elements = bytes / call_.element_size;
  alignas(line_bytes) std::byte block[most_streamed_bytes];
  std::byte* const result = streams_ ? block : call_.output + at;
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) operands_[rank] = inputs_[rank] + at;
  call_.kernels->combine(result, operands_.data(), flags_.nranks(), elements);
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    if (!writes_to(rank)) continue;
    if (streams_) {
      stream_copy(outputs_[rank] + at, result, bytes);
    } else if (rank != flags_.self()) {
      copy_over(outputs_[rank] + at, result, bytes);
    }
  }
}

}  // namespace tutti::shared
