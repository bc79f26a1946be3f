#include "lib/comm/comm.h"

#include <algorithm>
#include <mutex>

#include "algorithms/registry.h"
#include "lib/base/types.h"
#include "lib/comm/blocks.h"
#include "lib/gpu/device_calls.h"
#include "lib/schedule/levels.h"

namespace tutti {

Status Communicator::grow(std::vector<std::byte>* memory, size_t bytes, const char* user) {
  if (memory->size() >= bytes) return {};
  try {
    memory->resize(bytes);
  } catch (const std::bad_alloc&) {
    return {TUTTI_NO_MEMORY,
            "cannot allocate " + std::to_string(bytes) + " bytes of scratch for " + user};
  }
  return {};
}

std::byte* Communicator::compound_memory(size_t place, size_t bytes) {
  Kept& kept = compound_memory_[place];
  if (kept.bytes < bytes) {
    kept = {};  // before there is more
    kept.memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    kept.bytes = bytes;
  }
  return kept.memory.get();
}

tutti_status Communicator::fail(Status status) {
  last_error_ = std::move(status);
  return last_error_.code();
}

Transfers Communicator::transfers() {
  const std::lock_guard guard(lock_);
  Transfers all = protocols_.transfers();
  all += traffic_.transfers();
  return all;
}

void Communicator::abort(std::string_view reason) {
  std::string text = "rank " + std::to_string(rank_) + " called tutti_comm_abort()";
  if (!reason.empty()) text.append(": ").append(reason);
  abort(Status{TUTTI_ABORTED, std::move(text), rank_});
}

void Communicator::abort(const Status& why) {
  over_.store(true, std::memory_order_release);
  if (link_ != nullptr) link_->abort(why);
  if (device_ != nullptr) device_->fail(why);
}

// ---------------------------------------------------------------- preparing a call

Query Communicator::query_of(const CallKey& key) const {
  const Goal goal(runs_as(key.collective), uint32_t(nranks_), uint32_t(key.root));
  const bool v_form = key.lengths != 0;
  Query query;
  query.nranks = uint32_t(nranks_);
  const uint64_t blocks = goal.blocks() == 1 || v_form ? 1 : uint64_t(nranks_);
  query.count = key.count * blocks;
  query.class_count = largest_of_class(key.count) * blocks;
  query.element_size = uint32_t(dtype_size(key.dtype));
  query.root = uint32_t(key.root);
  query.ordered = reduces(key.collective) && !op_commutes(key.op);
  query.uneven = v_form;
  query.private_lengths = v_form && tutti::lengths_are_private(key.collective);
  query.level = op_rounds(key.op, key.dtype) ? level_of(key) : TUTTI_LEVEL_FAST;
  return query;
}

bool Communicator::can_move(const CallKey& key) const {
  Choice choice;
  return capabilities_.copy_only && choose(runs_as(key.collective), capabilities_, query_of(key),
                                           key.algorithm, key.unfused, &choice)
                                        .ok();
}

Status Communicator::prepare(const CallKey& key, std::shared_ptr<CallPlan>* out) {
  const Query query = query_of(key);
  const bool v_form = query.uneven;
  auto next = std::make_shared<CallPlan>();
  TUTTI_TRY(choose(runs_as(key.collective), capabilities_, query, key.algorithm, key.unfused,
                   &next->choice));

  const Choice& choice = next->choice;
  next->key = key;
  if (!key.algorithm.empty()) next->key.algorithm = choice.algorithm->name;
  next->element_size = query.element_size;
  next->counts = decided_alike(key.count, query.element_size, capabilities_);
  CallSignature& signature = next->signature;
  signature.root = key.root;
  signature.collective = key.collective;
  signature.set_types(key.dtype, key.op);
  signature.flags =
      uint8_t(uint8_t(choice.path) | uint8_t(key.part_of) << CallSignature::compound_shift |
              (v_form ? CallSignature::v_form : 0));
  signature.level = uint8_t(level_of(key));
  signature.algorithm = uint16_t(choice.algorithm - algorithms().data());
  next->ends_when_done =
      choice.path == Path::one_hop && !is_scan(key.collective) && !settings_.check_results;
  if (choice.path == Path::one_hop) {
    next->one_hop = shared::OneHopShape(key.collective, uint32_t(key.root), key.count,
                                        next->element_size, uint32_t(nranks_), uint32_t(rank_));
  }
  if (reduces(key.collective)) TUTTI_TRY(bind_operator(*next, query.level));
  if (choice.path == Path::schedule) {
    next->plan = protocols_.schedules().plan_for(
        *choice.algorithm, key.root, v_form ? plan::Chunks::scattered : plan::Chunks::together,
        schedule::bracketing_of(query.level));
  }
  next->set_size(key.count, key.lengths);
  *out = std::move(next);
  return {};
}

tutti_status Communicator::explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                             const CallSettings& settings, Choice* out) {
  Query query;
  query.nranks = uint32_t(nranks_);
  query.count = count;
  query.class_count = largest_of_class(count);
  query.element_size = uint32_t(dtype_size(dtype));
  query.ordered = !op_commutes(op);
  CallPlan call_plan;
  call_plan.key = {.count = count, .dtype = dtype, .op = op, .level = settings.level};
  query.level = op_rounds(op, dtype) ? level_of(call_plan.key) : TUTTI_LEVEL_FAST;
  Status chosen = bind_operator(call_plan, query.level);
  if (chosen.ok()) {
    chosen = choose(Collective::allreduce, capabilities_, query, settings.algorithm,
                    settings.unfused, out);
  }
  return chosen.ok() ? TUTTI_OK : fail(std::move(chosen));
}

// ---------------------------------------------------------------- collectives

const std::shared_ptr<CallPlan>* Communicator::find(const CallKey& key) {
  if (const auto* const found = call_cache_.find(key)) [[likely]]
    return found;
  std::shared_ptr<CallPlan> made;
  if (Status failed = prepare(key, &made); !failed.ok()) {
    fail(std::move(failed));
    return nullptr;
  }
  return call_cache_.add(std::move(made));
}

tutti_status Communicator::run_on_host(const Call& call) {
  enter();
  if (in_flight_.load(std::memory_order_acquire) != 0) [[unlikely]]
    return run_behind(call);
  const std::shared_ptr<CallPlan>* const found = find(call.key);
  if (found == nullptr) return last_error_.code();
  CallPlan& call_plan = **found;
  if (!call.input_aside && !call.output_aside && !call_plan.premultiplies) [[likely]]
    return run(call_plan, call);
  Call moved;
  if (Status aside = stage_in(call_plan, call, &moved); !aside.ok()) {
    return give_up(std::move(aside), call_plan.signature, calls() + 1);
  }
  const tutti_status ended = run(call_plan, moved);
  if (ended == TUTTI_OK) stage_out(call_plan, call);
  return ended;
}

Status Communicator::stage_in(const CallPlan& call_plan, const Call& asked, Call* call) {
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

void Communicator::stage_out(const CallPlan& call_plan, const Call& asked) {
  const size_t bytes = asked.aside_count * call_plan.element_size;
  if (asked.output_aside && bytes != 0) std::memcpy(asked.output, aside_.data(), bytes);
}

// One rank: its vector is the result, but for truth, which becomes 0 or 1.
tutti_status Communicator::run_alone(const CallPlan& call_plan, const Call& call) {
  const CallKey& key = call_plan.key;
  const Collective collective = key.collective;
  if (!Goal(collective, 1).gets(0, 0)) return TUTTI_OK;
  const auto [count, input, output] = lone_block_of(call);
  const std::byte* const from = call.input + input * call_plan.element_size;
  std::byte* const to = call.output + output * call_plan.element_size;
  if (reduces(collective) && gives_truth(key.op, key.dtype)) {
    find_kernels(key.dtype, TUTTI_LOR).reduce2(to, from, from, count);
  } else if (from != to && count != 0) {
    std::memcpy(to, from, count * call_plan.element_size);
  }
  return TUTTI_OK;
}

tutti_status Communicator::run(CallPlan& call_plan, const Call& call) {
  Status status;
  try {
    bool ended = false;
    status = begin_call(call_plan, call, &ended);
    if (status.ok() && !ended) {
      if (call_plan.ends_when_done && done_at_once()) return TUTTI_OK;
      status = complete_call(call_plan, timeout_ns(call.timeout_ms));
      status = end_call(call_plan, call, std::move(status));
    }
    if (status.ok()) [[likely]]
      return TUTTI_OK;
  } catch (...) {
    status = end_thrown_call(call_plan, call);
  }
  return give_up(std::move(status), call_plan.signature, calls());
}

// What nearly every call of a rank is that others are behind or ahead of.
bool Communicator::done_at_once() {
  shared::OneHop& one_hop = protocols_.shared()->one_hop;
  return one_hop.advance() && one_hop.done() && one_hop.failure().ok();
}

void Communicator::add_to_mark() {
  CallSignature& signature = mark_.signature;
  if (slice_of_ != 0) signature.count = slice_of_;
  signature.result = std::exchange(last_result_, 0);
  // Results are compared by digests of signatures alone.
  const uint64_t history = signature.result == 0 ? history_ : 0;
  mark_.digest = call_digest(mark_.epoch, signature_hash(signature) ^ history);
}

Status Communicator::begin_call(CallPlan& call_plan, const Call& call, bool* ended) {
  const uint64_t epoch = calls() + 1;
  epoch_.store(epoch, std::memory_order_relaxed);
  if (over_.load(std::memory_order_relaxed)) [[unlikely]]
    return {TUTTI_ABORTED, {}};
  if (link_ == nullptr) {
    *ended = true;
    run_alone(call_plan, call);
    return {};
  }
  mark_.epoch = epoch;
  mark_.signature = call_plan.signature;
  mark_.digest = call_digest(epoch, call_plan.signature_hash ^ history_);
  if ((last_result_ | slice_of_) != 0) [[unlikely]]
    add_to_mark();
  // Of a v form whose lengths not all know, none may be said to be empty.
  const bool empty = call_plan.key.count == 0 && !call_plan.lengths_are_private();
  if (ends_unheard(call_plan.key.collective, empty, call_plan.key.lengths != 0)) {
    history_ = history_after(history_, epoch, call_plan.signature_hash);
  }
  if (call_plan.choice.path == Path::schedule) {
    link_->begin(mark_);
  } else {
    slots_->begin(mark_);
  }
  *ended = empty;
  if (empty) return {};
  protocols_.start(call_plan, call, mark_);
  return {};
}

bool Communicator::advance_call(const CallPlan& call_plan) {
  return protocols_.with(call_plan.choice.path,
                         [](auto&& protocol, auto&) { return protocol.advance(); });
}

bool Communicator::call_done(const CallPlan& call_plan) {
  return protocols_.with(call_plan.choice.path,
                         [](auto&& protocol, auto&) { return protocol.done(); });
}

Status Communicator::complete_call(const CallPlan& call_plan, uint64_t timeout_ns) {
  waits_in_ = &call_plan;
  Status ended;
  try {
    ended = call_plan.kernels.user == nullptr ? complete_protocol(call_plan, timeout_ns)
                                              : complete_limited(call_plan, timeout_ns);
  } catch (...) {
    ended = own_failure();
  }
  if (circle_search_.posted()) [[unlikely]]
    circle_search_.leave();
  return ended;
}

// Pieces are as long as suits fast kernels, so the program's operator looks at the clock, too.
Status Communicator::complete_limited(const CallPlan& call_plan, uint64_t timeout_ns) {
  Limit limit(timeout_ns);
  const Limited limited(&limit_, &limit);
  return complete_protocol(call_plan, timeout_ns);
}

// One loop for each protocol, so that its state machine is part of the loop.
Status Communicator::complete_protocol(const CallPlan& call_plan, uint64_t timeout_ns) {
  return protocols_.with(call_plan.choice.path, [&](auto&& protocol, auto& link) {
    return complete(
        link, patience_, timeout_ns, [&] { return protocol.advance(); },
        [&] { return protocol.done(); }, &inspect_);
  });
}

Status Communicator::inspect_call(uint64_t now_ns) {
  Status found = link_->inspect(now_ns);
  // Another of the circle has found it first, and gone.
  if (found.code() == TUTTI_PEER_FAILED && circle_search_.in_circle(mark_))
    return circle_search_.circle(mark_);
  if (!found.ok()) return found;
  return circle_search_.look(*link_, mark_, now_ns);
}

bool Communicator::needs(int peer) {
  const CallPlan& call_plan = *waits_in_;
  const CallKey& key = call_plan.key;
  // Something of it is in what this rank gets. Blocks with lengths of their own may be empty.
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  const auto rank = uint32_t(rank_), source = uint32_t(peer);
  const uint32_t chunk = goal.block(source, rank);
  if (key.lengths == 0 && goal.gets(rank, chunk) && goal.combines(source, rank, chunk)) return true;
  // Or it is what the call is held up by.
  return protocols_.with(call_plan.choice.path,
                         [&](auto&& protocol, auto&) { return protocol.needs() == peer; });
}

Status Communicator::end_call(const CallPlan& call_plan, const Call& call, Status ended) {
  protocols_.with(call_plan.choice.path, [&](auto&& protocol, auto&) {
    if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
      ended = timed_out(protocol.waits_for(), mark_.epoch);
    }
    if (ended.ok() && !protocol.failure().ok()) [[unlikely]]
      ended = protocol.failure();
    if (!ended.ok()) [[unlikely]]
      protocol.withdraw();
  });
  if (ended.ok() && is_scan(call_plan.key.collective)) [[unlikely]]
    normalise_lone_vector(call_plan, call);
  if (ended.ok() && settings_.check_results) [[unlikely]]
    last_result_ = digest_of_result(call_plan, call);
  return ended;
}

uint32_t Communicator::digest_of_result(const CallPlan& call_plan, const Call& call) const {
  const CallKey& key = call_plan.key;
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  if (!gives_all_the_same(key.collective)) return 0;
  if (key.lengths == 0) {
    return uint32_t(
               hash_of_bytes(call.output, key.count * call_plan.element_size * goal.blocks())) |
           1;
  }
  std::vector<uint64_t> blocks;  // an allgatherv's, which may lie anywhere
  uint64_t packed = 0;
  for (size_t r = 0; r < size_t(nranks_); ++r) {
    const uint64_t at = call.blocks->recv_displs != nullptr ? call.blocks->recv_displs[r] : packed;
    packed = at + call.blocks->recv_counts[r];
    blocks.push_back(hash_of_bytes(call.output + at * call_plan.element_size,
                                   call.blocks->recv_counts[r] * call_plan.element_size));
  }
  return uint32_t(hash_of(blocks)) | 1;
}

// In a handler. Ending a call that has failed takes no memory that could be missing.
Status Communicator::end_thrown_call(const CallPlan& call_plan, const Call& call) {
  Status thrown = own_failure();
  return link_ != nullptr ? end_call(call_plan, call, std::move(thrown)) : thrown;
}

// Truth becomes 0 or 1 also where a scan has combined nothing yet.
void Communicator::normalise_lone_vector(const CallPlan& call_plan, const Call& call) const {
  const CallKey& key = call_plan.key;
  const Goal goal(key.collective, uint32_t(nranks_));
  if (!gives_truth(key.op, key.dtype) || goal.combined(uint32_t(rank_)) != 1) return;
  find_kernels(key.dtype, TUTTI_LOR).reduce2(call.output, call.output, call.output, key.count);
}

// ---------------------------------------------------------------- other communicators

void Communicator::share(const void* thread) {
  const void* owner = nullptr;
  if (owner_.compare_exchange_strong(owner, thread) || owner == this) return;
  owner_.store(this);
}

bool Communicator::rests_with(const void* thread, bool alone) const {
  const void* const owner = owner_.load();
  return (owner == thread || (alone && owner == nullptr)) && !busy();
}

void Communicator::post(Note note) {
  if (!note.empty()) note.entered = calls();
  link_->post_note(note);
}

// ---------------------------------------------------------------- failure

Status Communicator::timed_out(int peer, uint64_t call) const noexcept {
  try {
    return {TUTTI_TIMEOUT, describe_wait(peer, call), peer, call};
  } catch (...) {
    return {TUTTI_TIMEOUT, "deadline passed", peer, call};
  }
}

std::string Communicator::describe_wait(int peer, uint64_t call) const {
  if (peer < 0) return "nothing came before the deadline";
  std::string text = "rank " + std::to_string(rank_) + " waited for rank " + std::to_string(peer);
  const std::optional<CallMark> seen = link_->last_seen(peer);
  if (!seen) return text + ", which has not made any call yet";
  const std::string what =
      "call " + std::to_string(seen->epoch) + ", " + seen->signature.describe();
  if (call == 0) return text + ", whose latest is " + what;
  if (seen->epoch < call) return text + ", which has not entered this call; its latest is " + what;
  if (seen->epoch > call) return text + ", which is already in " + what;
  return text + ", which is in the call but sends nothing more";
}

tutti_status Communicator::break_off(Status status, const CallKey& last) {
  const std::lock_guard guard(lock_);
  const std::shared_ptr<CallPlan>* const found = find(last);
  if (found != nullptr) return give_up(std::move(status), (*found)->signature, epoch_);
  break_down(std::move(status), "in a call of several", epoch_);
  return fail(broken_);
}

Status Communicator::look() {
  const std::lock_guard guard(lock_);
  if (!broken_.ok() || link_ == nullptr) return broken_;
  return first_ != nullptr ? inspect_queue(now_ns()) : link_->inspect(now_ns());
}

tutti_status Communicator::abandon() {
  Status thrown = own_failure();
  const std::lock_guard guard(lock_);
  if (first_ != nullptr) {
    break_queue(std::move(thrown));
  } else {
    break_down(std::move(thrown), "before a call began", 0);
  }
  return fail(broken_);
}

Status Communicator::own_failure() const noexcept {
  const Status thrown = status_of_exception();
  try {
    return {thrown.code(), "rank " + std::to_string(rank_) + ": " + thrown.text(), rank_};
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

void Communicator::tell_peers(const Status& why) noexcept {
  if (link_ == nullptr) return;
  try {
    link_->abort(why);
  } catch (const std::bad_alloc&) {
    try {
      link_->abort(Status::out_of_memory());
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): they find it gone when freed
    }
  }
}

void Communicator::break_down(Status status, const CallSignature& signature, uint64_t call) {
  std::string where;
  try {
    where = call == 0 ? "in " : "in call " + std::to_string(call) + ", ";
    where += signature.describe();
  } catch (const std::bad_alloc&) {
    where.clear();
  }
  break_down(std::move(status), where, call);
}

void Communicator::break_down(Status status, const std::string& where, uint64_t call) {
  over_.store(true, std::memory_order_release);
  if (!broken_.ok()) return;
  try {
    if (status.text().empty() && device_ != nullptr) status = device_->failure();
    if (status.text().empty() && link_ != nullptr) {  // aborted: the link knows why
      if (Status found = link_->inspect(now_ns()); !found.ok()) status = std::move(found);
    }
    if (status.ok()) status = {TUTTI_ABORTED, "the communicator is over"};
    broken_ = {status.code(), where + ": " + status.text(), status.rank(), call};
  } catch (...) {
    if (status.ok()) status = status_of_exception();
    broken_ = status;
  }
  tell_peers(status);
  if (device_ != nullptr) device_->fail(broken_);
}

}  // namespace tutti
