#include "lib/comm/call_runner.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/types.h"
#include "lib/plan/blocks.h"

namespace tutti {

namespace {

// Makes `memory` at least `bytes` long; `user` says in the error what it is for.
Status grow(std::vector<std::byte>* memory, size_t bytes, const char* user) {
  if (memory->size() >= bytes) return {};
  try {
    memory->resize(bytes);
  } catch (const std::bad_alloc&) {
    return {TUTTI_NO_MEMORY,
            "cannot allocate " + std::to_string(bytes) + " bytes of scratch for " + user};
  }
  return {};
}

}  // namespace

void CallRunner::open(uint64_t seed) {
  protocols_.open(connection_.link.get(), connection_.slots);
  const Capabilities& capabilities = connection_.capabilities;
  protocols_.schedules().open(uint32_t(connection_.rank), uint32_t(connection_.nranks),
                              group_size(capabilities), capabilities.copy_only,
                              capabilities.tuning);
  cycle_search_.open(connection_.rank, connection_.nranks, seed);
  verdicts_.reserve(size_t(connection_.nranks));
}

// ---------------------------------------------------------------- a blocking call

tutti_status CallRunner::run(const Call& call) {
  const CallCache::Entry* const found = planner_.find(call.key);
  if (found == nullptr) return failures_.refuse(failures_.last_error(), calls() + 1);
  CallPlan& call_plan = **found;
  if (!is_staged(call_plan, call)) [[likely]]
    return run(call_plan, call);
  Call moved;
  if (Status staged = stage_in(call_plan, call, &moved); !staged.ok()) {
    return failures_.give_up(std::move(staged), call_plan.signature, calls() + 1);
  }
  const tutti_status ended = run(call_plan, moved);
  if (ended == TUTTI_OK) stage_out(call_plan, call);
  return ended;
}

tutti_status CallRunner::run(CallPlan& call_plan, const Call& call) {
  Status status;
  bool started = false;
  try {
    bool ended = false;
    status = number(call_plan, call, &ended);
    if (status.ok() && !ended) {
      status = protocols_.with(call_plan.choice.path, [&](auto&& protocol, auto& link) -> Status {
        link.begin(mark_);
        if (call_plan.empty) {
          enter();
          return {};
        }
        started = true;
        start(protocol, call_plan, call, mark_);
        enter();
        if (!done_at_once(protocol, call_plan))
          return complete_and_end(protocol, link, call_plan, call);
        if (!call_plan.finishes && protocol.failure().ok()) [[likely]]
          return {};
        return end(protocol, call_plan, call, {});
      });
    }
    if (status.ok()) [[likely]] {
      leave();
      return TUTTI_OK;
    }
  } catch (...) {
    status = started ? end_thrown(call_plan, call) : failures_.own_failure();
  }
  return failures_.give_up(std::move(status), call_plan.signature, calls());
}

// One rank: its vector is the result, except that logical values become 0 or 1.
void CallRunner::run_alone(const CallPlan& call_plan, const Call& call) const {
  const CallKey& key = call_plan.key;
  const Collective collective = key.collective;
  if (!Goal(collective, 1).gets(0, 0)) return;
  const auto [count, input, output] = lone_block_of(call);
  const std::byte* const from = call.input + input * call_plan.element_size;
  std::byte* const to = call.output + output * call_plan.element_size;
  if (reduces(collective) && gives_truth(key.op, key.dtype)) {
    find_kernels(key.dtype, TUTTI_LOR).reduce2(to, from, from, count);
  } else if (from != to && count != 0) {
    std::memcpy(to, from, count * call_plan.element_size);
  }
}

// ---------------------------------------------------------------- memory elsewhere

Status CallRunner::stage_in(const CallPlan& call_plan, const Call& asked, Call* call) {
  *call = asked;
  if (call_plan.premultiplies) TUTTI_TRY(scale_input(call_plan, call));
  if (!asked.input_aside && !asked.output_aside) return {};
  const size_t bytes = asked.aside_count * call_plan.element_size;
  TUTTI_TRY(grow(&aside_, bytes, "a call in place"));
  if (asked.input_aside) {
    if (bytes != 0) std::memcpy(aside_.data(), asked.input, bytes);
    call->input = aside_.data();
  } else {
    call->output = aside_.data();
  }
  return {};
}

void CallRunner::stage_out(const CallPlan& call_plan, const Call& asked) {
  const size_t bytes = asked.aside_count * call_plan.element_size;
  if (asked.output_aside && bytes != 0) std::memcpy(asked.output, aside_.data(), bytes);
}

Status CallRunner::scale_input(const CallPlan& call_plan, Call* call) {
  const CallKey& key = call_plan.key;
  // A v form's count is that of all blocks.
  const bool one_block = input_has_blocks(key.collective) && key.lengths == 0;
  const uint64_t count = key.count * (one_block ? uint64_t(connection_.nranks) : 1);
  if (count == 0) return {};
  TUTTI_TRY(
      grow(&products_, count * call_plan.element_size, "the products of a pre-multiplied sum"));
  call_plan.kernels.scale(products_.data(), call->input, call_plan.scalar.data(), count);
  call->input = products_.data();
  return {};
}

// ---------------------------------------------------------------- stages

void CallRunner::add_to_mark() {
  CallSignature& signature = mark_.signature;
  if (slice_of_ != 0) signature.count = slice_of_;
  signature.result = std::exchange(last_result_, 0);
  // A digest with a result leaves the history out: results are compared by signatures alone.
  const uint64_t history = signature.result == 0 ? history_ : 0;
  mark_.digest = call_digest(mark_.epoch, signature_hash(signature) ^ history);
}

[[gnu::always_inline]] inline Status CallRunner::number(CallPlan& call_plan, const Call& call,
                                                        bool* ended) {
  const uint64_t epoch = calls() + 1;
  epoch_.store(epoch, std::memory_order_relaxed);
  if (failures_.over()) [[unlikely]]
    return {TUTTI_ABORTED, {}};
  if (protocols_.alone()) {
    *ended = true;
    run_alone(call_plan, call);
    return {};
  }
  if (call_plan.trial != nullptr) choose_way(call_plan);
  if (epoch == connection_.settings.fault.call) [[unlikely]]
    strike(connection_.settings.fault);
  mark_.epoch = epoch;
  mark_.signature = call_plan.signature;
  mark_.digest = call_digest(epoch, call_plan.signature_hash ^ history_);
  if ((last_result_ | slice_of_) != 0) [[unlikely]]
    add_to_mark();
  if (call_plan.ends_unheard) {
    history_ = history_after(history_, epoch, call_plan.signature_hash);
  }
  return {};
}

// ---------------------------------------------------------------- trials

namespace {

uint16_t tag_of(const CallPlan& call_plan) {
  return uint16_t(call_plan.trial_tag + call_plan.trial->look() * 0x9e37u) | 1;
}

}  // namespace

// Else a trial would time the page faults of its first calls.
void CallRunner::touch_cells() {
  if (std::exchange(cells_touched_, true) || protocols_.shared() == nullptr) return;
  Status touched = connection_.slots->cells()->touch();
  // Where the system will not be asked for them, they come when they are used.
  if (touched.code() == TUTTI_NO_MEMORY) throw Thrown{std::move(touched)};
}

[[gnu::noinline]] void CallRunner::choose_way(CallPlan& call_plan) {
  Trial& trial = *call_plan.trial;
  uint32_t way = trial.begin();
  const bool tells_in_schedule = trial.is_open() && call_plan.verdicts != nullptr;
  if (tells_in_schedule) way = call_plan.telling;
  if (way != call_plan.way) call_plan.go(way);
  if (!cells_touched_) [[unlikely]]
    touch_cells();
  if (std::exchange(call_plan.reserves, false)) reserve_for_ways(call_plan);
  if (tells_in_schedule) {
    protocols_.schedules().tell_after(*call_plan.verdicts, trial.verdict());
  } else if (trial.is_open()) {
    protocols_.shared()->verdicts.tell(tag_of(call_plan), trial.verdict());
  }
  call_plan.finishes = call_plan.always_finishes || trial.is_timed() || trial.is_open();
  timing_ = trial.is_timed();
  if (timing_) {
    moved_ns_ = 0;
    since_ns_ = now_ns();
  }
}

void CallRunner::reserve_for_ways(const CallPlan& call_plan) {
  CallKey largest = call_plan.key;
  largest.count = call_plan.counts.most;
  for (const Way& way : call_plan.ways) {
    if (way.plan != nullptr)
      protocols_.schedules().reserve(*way.plan, largest, call_plan.element_size);
  }
  if (call_plan.verdicts != nullptr) protocols_.schedules().reserve_words(*call_plan.verdicts);
}

void CallRunner::finish_trial(const CallPlan& call_plan) {
  Trial& trial = *call_plan.trial;
  if (timing_) {
    timing_ = false;
    if (call_plan.ends_unheard && protocols_.shared() != nullptr) time_to_last_end();
    if (since_ns_ != 0) pause_timing();
    // As if it had been the largest of its class.
    trial.tell(
        uint64_t(double(moved_ns_) * double(call_plan.counts.most) / double(call_plan.key.count)));
    return;
  }
  if (trial.is_open()) trial.settle(heard(call_plan));
}

// How a rank writes decides how long others read, also where it does not wait for them: so such a
// call takes until the last rank has ended it, if that is soon. Later, they were not there.
void CallRunner::time_to_last_end() {
  shared::Verdicts& verdicts = protocols_.shared()->verdicts;
  verdicts.show_end(uint32_t(mark_.epoch));
  if (since_ns_ == 0 || connection_.capabilities.crowded()) return;  // in flight, or in their way
  // A call that took longer says who was late, and nobody may be kept here.
  constexpr uint64_t most_ns = 10'000'000;
  const uint64_t now = now_ns(), took = now - since_ns_ + moved_ns_;
  if (took > most_ns) return;
  const uint64_t last = now + std::min(4 * took + 1000, most_ns);
  while (!verdicts.all_have_ended(uint32_t(mark_.epoch)) && now_ns() < last) cpu_relax();
}

std::span<const Verdict> CallRunner::heard(const CallPlan& call_plan) {
  if (call_plan.verdicts != nullptr) return protocols_.schedules().heard();
  const shared::Verdicts& verdicts = protocols_.shared()->verdicts;
  verdicts_.assign(size_t(connection_.nranks), 0);
  for (size_t rank = 0; rank < verdicts_.size(); ++rank)
    verdicts.heard(uint32_t(rank), tag_of(call_plan), &verdicts_[rank]);
  return verdicts_;
}

// ---------------------------------------------------------------- stages

Status CallRunner::begin(CallPlan& call_plan, const Call& call, bool* ended) {
  TUTTI_TRY(number(call_plan, call, ended));
  if (*ended) return {};
  bool started = false;
  try {
    protocols_.with(call_plan.choice.path, [&](auto&& protocol, auto& link) {
      link.begin(mark_);
      *ended = call_plan.empty;
      started = !*ended;
      if (started) start(protocol, call_plan, call, mark_);
      enter();
    });
  } catch (...) {
    return started ? end_thrown(call_plan, call) : failures_.own_failure();
  }
  if (timing_) pause_timing();
  if (*ended) leave();
  return {};
}

bool CallRunner::advance(const CallPlan& call_plan) {
  const auto advance = [&] {
    return protocols_.with(call_plan.choice.path,
                           [](auto&& protocol, auto&) { return protocol.advance(); });
  };
  if (!timing_) [[likely]]
    return advance();
  since_ns_ = now_ns();
  const bool moved = advance();
  if (moved) pause_timing();
  since_ns_ = 0;
  return moved;
}

bool CallRunner::done(const CallPlan& call_plan) {
  return protocols_.with(call_plan.choice.path,
                         [](auto&& protocol, auto&) { return protocol.done(); });
}

Status CallRunner::complete_and_end(const CallPlan& call_plan, const Call& call) {
  if (timing_) since_ns_ = now_ns();
  Status ended = protocols_.with(call_plan.choice.path, [&](auto&& protocol, auto& link) {
    return complete_and_end(protocol, link, call_plan, call);
  });
  if (ended.ok()) leave();
  return ended;
}

// Where ranks outnumber cores, who is waited for needs this rank's core. A single one may have
// another.
const Patience& CallRunner::patience_for(const CallPlan& call_plan) const {
  const bool for_one = call_plan.one_hop && call_plan.one_hop->sources.size() == 1;
  return for_one ? connection_.lone_patience : connection_.patience;
}

// One instance for each protocol, whose state machine is inlined into the loop; not inlined itself,
// so that calls that end at once do not pay for it.
template <class Protocol, class LinkType>
[[gnu::noinline]] Status CallRunner::complete_and_end(Protocol& protocol, LinkType& link,
                                                      const CallPlan& call_plan, const Call& call) {
  const auto advance = [&] { return protocol.advance(); };
  const auto done = [&] { return protocol.done(); };
  // Pieces are sized for fast kernels, so the program's operator, which may be slow, checks the
  // deadline, too.
  std::optional<LimitForFunctions> limit;
  if (call_plan.kernels.user != nullptr) [[unlikely]]
    limit.emplace(&limit_, connection_.timeout_ns(call.timeout_ms));
  Status ended;
  bool searched = false;
  try {
    uint32_t idle = 0;
    const Patience& patience = patience_for(call_plan);
    if (!ends_while_spinning(patience, advance, done, &idle)) [[unlikely]] {
      waits_in_ = &call_plan;
      searched = true;
      ended = complete_in_time(link, patience, connection_.timeout_ns(call.timeout_ms), advance,
                               done, idle, &inspect_);
    }
  } catch (...) {
    ended = failures_.own_failure();
  }
  if (searched) [[unlikely]] {
    if (cycle_search_.posted()) cycle_search_.leave();
    if (connection_.record != nullptr) connection_.record->waited(entry_);
  }
  return end(protocol, call_plan, call, std::move(ended));
}

Status CallRunner::inspect(uint64_t now_ns) {
  show_wait(*waits_in_, now_ns);
  Status found = connection_.link->inspect(now_ns);
  // Another rank of the cycle has found it first and has left.
  if (found.code() == TUTTI_PEER_FAILED && cycle_search_.in_cycle(mark_))
    return cycle_search_.cycle(mark_);
  if (!found.ok()) return found;
  return cycle_search_.look(*connection_.link, mark_, now_ns);
}

void CallRunner::show_wait(const CallPlan& call_plan, uint64_t now_ns) {
  if (!wait_pace_.due(mark_.epoch, now_ns)) return;
  const int peer = protocols_.with(call_plan.choice.path,
                                   [](auto&& protocol, auto&) { return protocol.waits_for(); });
  failures_.show_wait(mark_.epoch, mark_.signature, peer);
  if (connection_.record == nullptr) return;
  connection_.record->waits(entry_, peer, connection_.way_to(peer), now_ns);
}

bool CallRunner::needs(int peer) {
  const CallPlan& call_plan = *waits_in_;
  const CallKey& key = call_plan.key;
  // What this rank gets contains data of `peer`. Blocks of a v form may be empty.
  const Goal goal(key.collective, uint32_t(connection_.nranks), uint32_t(key.root));
  const auto rank = uint32_t(connection_.rank), source = uint32_t(peer);
  const uint32_t chunk = goal.block(source, rank);
  if (key.lengths == 0 && goal.gets(rank, chunk) && goal.combines(source, rank, chunk)) return true;
  // Or the protocol waits for it.
  return protocols_.with(call_plan.choice.path,
                         [&](auto&& protocol, auto&) { return protocol.needs() == peer; });
}

Status CallRunner::end(const CallPlan& call_plan, const Call& call, Status ended) {
  ended = protocols_.with(call_plan.choice.path, [&](auto&& protocol, auto&) {
    return end(protocol, call_plan, call, std::move(ended));
  });
  if (ended.ok()) leave();
  return ended;
}

template <class Protocol>
Status CallRunner::end(Protocol& protocol, const CallPlan& call_plan, const Call& call,
                       Status ended) {
  if (ended.ok() && !protocol.failure().ok()) [[unlikely]]
    ended = protocol.failure();
  if (!ended.ok()) [[unlikely]] {
    if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
      ended = failures_.timed_out(protocol.waits_for(), mark_.epoch);
    }
    protocol.withdraw();
  } else if (call_plan.finishes) [[unlikely]] {
    finish(call_plan, call);
  }
  return ended;
}

void CallRunner::finish(const CallPlan& call_plan, const Call& call) {
  if (call_plan.trial != nullptr) finish_trial(call_plan);
  if (is_scan(call_plan.key.collective)) normalise_lone_vector(call_plan, call);
  if (connection_.settings.check_results) last_result_ = digest_of_result(call_plan, call);
}

// Ending a failed call needs no allocation that could fail.
Status CallRunner::end_thrown(const CallPlan& call_plan, const Call& call) {
  return end(call_plan, call, failures_.own_failure());
}

uint32_t CallRunner::digest_of_result(const CallPlan& call_plan, const Call& call) const {
  const CallKey& key = call_plan.key;
  const auto nranks = size_t(connection_.nranks);
  const Goal goal(key.collective, uint32_t(nranks), uint32_t(key.root));
  if (!gives_all_the_same(key.collective)) return 0;
  if (key.lengths == 0) {
    return uint32_t(
               hash_of_bytes(call.output, key.count * call_plan.element_size * goal.blocks())) |
           1;
  }
  std::vector<uint64_t> blocks;  // an allgatherv's, which may lie anywhere
  uint64_t packed = 0;
  for (size_t r = 0; r < nranks; ++r) {
    const uint64_t at = call.blocks->recv_displs != nullptr ? call.blocks->recv_displs[r] : packed;
    packed = at + call.blocks->recv_counts[r];
    blocks.push_back(hash_of_bytes(call.output + at * call_plan.element_size,
                                   call.blocks->recv_counts[r] * call_plan.element_size));
  }
  return uint32_t(hash_of(blocks)) | 1;
}

// Logical values become 0 or 1 also on the rank where a scan has combined nothing yet.
void CallRunner::normalise_lone_vector(const CallPlan& call_plan, const Call& call) const {
  const CallKey& key = call_plan.key;
  const Goal goal(key.collective, uint32_t(connection_.nranks));
  if (!gives_truth(key.op, key.dtype) || goal.combined(uint32_t(connection_.rank)) != 1) return;
  find_kernels(key.dtype, TUTTI_LOR).reduce2(call.output, call.output, call.output, key.count);
}

}  // namespace tutti
