// Long vectors on GPUs that the hosts combine or send to all: they go in pieces, so that the copy
// of one overlaps with the call of another.
#include <sched.h>

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/base/types.h"
#include "lib/gpu/gpu_front.h"
#include "lib/schedule/levels.h"

namespace tutti {

// Decided from what all ranks know. The bits must be those of the whole call, so the pieces run its
// algorithm, which must combine all elements alike.
bool GpuFront::goes_in_pieces(const Call& call, Call* piece) {
  const CallKey& key = call.key;
  if (!gives_all_the_same(key.collective) || output_has_blocks(key.collective)) return false;
  const uint64_t size = dtype_size(key.dtype), piece_bytes = capabilities_.tuning.gpu_piece_bytes;
  if (key.count * size <= 2 * piece_bytes || size > piece_bytes) return false;
  *piece = call;
  piece->key.count = piece_bytes / size;
  if (!reduces(key.collective) || nranks_ == 1) return true;
  HostPlan plan;
  if (!host_.plan_on_host(key, &plan).ok()) return false;  // run_staged() finds the reason, too
  if (plan.premultiplies || !op_rounds(key.op, key.dtype)) return !plan.premultiplies;
  const Algorithm& algorithm = *plan.algorithm;
  piece->key.algorithm = algorithm.name;
  return schedule::levels_of(algorithm, {.rank = 0,
                                         .nranks = uint32_t(nranks_),
                                         .root = 0,
                                         .radix = group_size(capabilities_),
                                         .bracketing = schedule::Bracketing::left})
      .layout;
}

tutti_status GpuFront::run_in_pieces(const Call& call, Call piece) {
  const uint64_t deadline_ns = later_ns(now_ns(), host_.timeout_ns(call.timeout_ms));
  const uint64_t size = dtype_size(call.key.dtype), most = piece.key.count * size;
  const uint64_t bytes = call.key.count * size, pieces = (bytes + most - 1) / most;
  const Goal goal(call.key.collective, uint32_t(nranks_), uint32_t(call.key.root));
  const bool reads = goal.has_input(uint32_t(rank_)), writes = goal.fills_output(uint32_t(rank_));
  bool input_there = false, output_there = false;
  std::byte* host = nullptr;
  Status going = reads ? pinned_->look(call.input, &input_there) : Status();
  if (going.ok() && writes) going = pinned_->look(call.output, &output_there);
  if (going.ok()) going = pinned_->memory(2 * most, &host);
  const auto begin = [&](uint64_t i, bool in) -> Status {
    if (i >= pieces || !(in ? input_there : output_there)) return {};
    const uint64_t at = i * most, length = std::min(most, bytes - at);
    std::byte* const here = host + (i % 2) * most;
    return in ? pinned_->begin_copy(int(i % 2), here, call.input + at, length)
              : pinned_->begin_copy(int(i % 2), call.output + at, here, length);
  };
  const auto wait = [&](uint64_t i) -> Status {
    for (bool ended = false;;) {
      TUTTI_TRY(pinned_->copy_ended(int(i % 2), &ended));
      if (ended) return {};
      if (now_ns() >= deadline_ns) return {TUTTI_TIMEOUT, "a copy did not end before the deadline"};
      sched_yield();
    }
  };
  if (going.ok()) going = begin(0, true);
  if (going.ok()) going = begin(1, true);
  for (uint64_t i = 0; i < pieces && going.ok(); ++i) {
    if (input_there) going = wait(i);
    // The copy out of this half of the memory, two pieces ago, must have ended. A wait for a copy
    // into it covers that: both are on one stream.
    if (going.ok() && !input_there && output_there && i >= 2) going = wait(i);
    if (!going.ok()) break;
    const uint64_t at = i * most, now = now_ns();
    std::byte* const here = host + (i % 2) * most;
    piece.key.count = std::min(most, bytes - at) / size;
    piece.input = input_there ? here : call.input + at;
    piece.output = output_there ? here : call.output + at;
    if (has_one_buffer(call.key.collective)) {
      const bool there = input_there || output_there;
      piece.output = there ? here : call.output + at;
      piece.input = piece.output;
    }
    piece.timeout_ms = now < deadline_ns ? int64_t((deadline_ns - now) / 1'000'000u) + 1 : 1;
    if (const tutti_status ended = host_.run_on_host(piece); ended != TUTTI_OK) {
      pinned_->settle();
      return ended;
    }
    going = begin(i, false);
    if (going.ok()) going = begin(i + 2, true);
  }
  for (const uint64_t last : {pieces - 2, pieces - 1}) {
    if (going.ok() && output_there) going = wait(last);
  }
  if (going.ok()) return TUTTI_OK;
  pinned_->settle();
  return host_.give_up(std::move(going), "between GPU and host");
}

}  // namespace tutti
