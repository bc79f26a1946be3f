#include "lib/comm/scheduled.h"

#include <algorithm>
#include <utility>

#include "lib/plan/blocks.h"
#include "lib/plan/lower.h"

namespace tutti {

namespace {

CallKey key_of_words() {
  return {.count = 1, .collective = Collective::allgather, .dtype = TUTTI_UINT64};
}

}  // namespace

CachedPlan* Schedules::plan_for(const Algorithm& algorithm, int root, plan::Chunks chunks,
                                schedule::Bracketing bracketing) {
  if (copy_only_) chunks = plan::Chunks::out_of_reach;
  for (const auto& cached : plans_) {
    if (cached->algorithm == &algorithm && cached->root == root && cached->chunks == chunks &&
        cached->bracketing == bracketing) {
      return cached.get();
    }
  }
  const schedule::Shape shape{.rank = rank_,
                              .nranks = nranks_,
                              .root = uint32_t(root),
                              .radix = group_size_,
                              .bracketing = bracketing};
  plans_.push_back(std::make_unique<CachedPlan>(&algorithm, root, chunks, bracketing,
                                                plan::lower(algorithm, shape, chunks)));
  return plans_.back().get();
}

void Schedules::start(CallPlan& call_plan, const Call& call, uint64_t epoch) {
  call_plan_ = &call_plan;
  call_ = &call;
  epoch_ = epoch;
  part_ = call_plan.lengths_are_private() && !call.lengths_agreed ? Part::lengths : Part::call;
  failure_ = part_ == Part::lengths ? start_lengths() : start_call();
  done_ = !failure_.ok();
}

Status Schedules::start_call() {
  bind(*call_plan_->plan, call_plan_->key, call_plan_->element_size, *call_);
  return start_plan(*call_plan_->plan, call_plan_->kernels, call_->input, call_->output);
}

void Schedules::run_has_ended() {
  if (part_ == Part::lengths) {
    failure_ = compare_lengths();
    if (failure_.ok()) failure_ = start_call();
    done_ = !failure_.ok();
    part_ = Part::call;
    return;
  }
  if (part_ == Part::call && call_plan_->kernels.divide != nullptr) average();
  if (part_ == Part::call && allgather_ != nullptr) {
    part_ = Part::words;
    failure_ = start_words();
    done_ = !failure_.ok();
    return;
  }
  done_ = true;
}

void Schedules::bind(CachedPlan& cached, const CallKey& key, uint32_t element_size,
                     const Call& call) {
  const Goal goal(key.collective, nranks_, uint32_t(key.root));
  if (goal.blocks() == 1) {
    if (!cached.binding.bound_to(key.count, element_size)) {
      cached.binding.bind(key.count, element_size);
    }
    return;
  }
  if (key.lengths == 0 && cached.bound_to == key) return;
  extents_of(goal, rank_, call, element_size, &extents_);
  cached.binding.bind(extents_);
  cached.bound_to = key;
}

void Schedules::reserve(CachedPlan& cached, const CallKey& key, uint32_t element_size) {
  Call call;
  call.key = key;
  bind(cached, key, element_size, call);
  scratch_.resize(std::max(scratch_.size(), cached.binding.scratch_bytes()));
  run_.reserve(cached.plan);
}

Status Schedules::start_plan(CachedPlan& cached, const Kernels& kernels, const std::byte* input,
                             std::byte* output) {
  const size_t bytes = cached.binding.scratch_bytes();
  if (scratch_.size() < bytes) {
    try {
      scratch_.resize(bytes);
    } catch (const std::bad_alloc&) {
      return {TUTTI_NO_MEMORY, "cannot allocate " + std::to_string(bytes) +
                                   " bytes of scratch for " + cached.algorithm->name};
    }
  }
  // The executor writes to the input only where it is the output.
  run_.start(cached.binding, {const_cast<std::byte*>(input), output, scratch_.data()}, kernels);
  return {};
}

// Divides what this rank got by the number of vectors combined in it.
void Schedules::average() const {
  const CallKey& key = call_plan_->key;
  const Goal goal(key.collective, nranks_, uint32_t(key.root));
  if (!goal.gets(rank_, goal.block(rank_, rank_))) return;
  const uint32_t vectors = goal.combined(rank_);
  if (vectors == 1) return;  // it stays as it is, also where it is NaN
  const uint64_t count = key.lengths != 0 ? call_->blocks->send_counts[rank_] : key.count;
  call_plan_->kernels.divide(call_->output, count, vectors);
}

// Runs the same collective with the lengths as blocks, so that the receiver of each block learns
// the length that its sender has.
Status Schedules::start_lengths() {
  static constexpr Kernels none;
  const Blocks& blocks = *call_->blocks;
  own_lengths_.assign(nranks_, blocks.own);
  peer_lengths_.assign(nranks_, 0);
  if (blocks.send_counts != nullptr) {
    std::copy_n(blocks.send_counts, nranks_, own_lengths_.begin());
  }
  CallKey key = call_plan_->key;
  key.lengths = 0;
  key.count = 1;
  key.dtype = TUTTI_UINT64;
  CachedPlan* const cached = plan_for(*call_plan_->choice.algorithm, key.root,
                                      plan::Chunks::together, schedule::Bracketing::left);
  Call exchange;
  exchange.key = key;
  bind(*cached, key, sizeof(uint64_t), exchange);
  return start_plan(*cached, none, reinterpret_cast<const std::byte*>(own_lengths_.data()),
                    reinterpret_cast<std::byte*>(peer_lengths_.data()));
}

void Schedules::reserve_words(CachedPlan& allgather) {
  reserve(allgather, key_of_words(), sizeof(uint64_t));
  heard_.resize(nranks_);
}

Status Schedules::start_words() {
  static constexpr Kernels none;
  CachedPlan& cached = *std::exchange(allgather_, nullptr);
  Call exchange;
  exchange.key = key_of_words();
  bind(cached, exchange.key, sizeof(uint64_t), exchange);
  return start_plan(cached, none, reinterpret_cast<const std::byte*>(&told_),
                    reinterpret_cast<std::byte*>(heard_.data()));
}

Status Schedules::compare_lengths() const {
  const CallKey& key = call_plan_->key;
  const Blocks& blocks = *call_->blocks;
  const Goal goal(key.collective, nranks_, uint32_t(key.root));
  for (uint32_t from = 0; from < nranks_; ++from) {
    const uint32_t block = goal.block(from, rank_);
    if (!goal.has(from, block) || !goal.gets(rank_, block)) continue;
    const uint64_t sent = peer_lengths_[goal.output_blocks() == 1 ? 0 : from];
    const uint64_t expected = blocks.recv_counts != nullptr ? blocks.recv_counts[from] : blocks.own;
    if (sent == expected) continue;
    return {TUTTI_MISMATCH,
            rank_name(from) + " sends " + std::to_string(sent) + " elements to rank " +
                std::to_string(rank_) + ", which expects " + std::to_string(expected),
            int(from), epoch_};
  }
  return {};
}

}  // namespace tutti
