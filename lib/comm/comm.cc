#include "lib/comm/comm.h"

#include <algorithm>
#include <mutex>

#include "lib/comm/blocks.h"
#include "lib/comm/device_calls.h"
#include "lib/plan/lower.h"
#include "lib/schedule/levels.h"
#include "lib/types.h"

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
  Transfers all = run_.transfers();
  all += traffic_.transfers();
  if (fused_) all += fused_->transfers();
  if (pull_) all += pull_->transfers();
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

Status Communicator::plan_for(const Algorithm& algorithm, int root, plan::Chunks chunks,
                              schedule::Bracketing bracketing, CachedPlan** out) {
  if (setting_.only_moves) chunks = plan::Chunks::out_of_reach;
  for (const auto& cached : plans_) {
    if (cached->algorithm == &algorithm && cached->root == root && cached->chunks == chunks &&
        cached->bracketing == bracketing) {
      *out = cached.get();
      return {};
    }
  }
  const schedule::Shape shape{.rank = uint32_t(rank_),
                              .nranks = uint32_t(nranks_),
                              .root = uint32_t(root),
                              .radix = group_size(setting_),
                              .bracketing = bracketing};
  plans_.push_back(std::make_unique<CachedPlan>(&algorithm, root, chunks, bracketing,
                                                plan::lower(algorithm, shape, chunks)));
  *out = plans_.back().get();
  return {};
}

// A barrier runs as an allreduce of one byte, whatever it holds.
static Collective runs_as(const CallKey& key) {
  return key.collective == Collective::barrier ? Collective::allreduce : key.collective;
}

Request Communicator::request_of(const CallKey& key) const {
  const Goal goal(runs_as(key), uint32_t(nranks_), uint32_t(key.root));
  const bool v_form = key.lengths != 0;
  Request request;
  request.nranks = uint32_t(nranks_);
  request.count = key.count * (goal.blocks() == 1 || v_form ? 1 : uint64_t(nranks_));
  request.element_size = uint32_t(dtype_size(key.dtype));
  request.root = uint32_t(key.root);
  request.ordered = reduces(key.collective) && !op_commutes(key.op);
  request.uneven = v_form;
  request.private_lengths = v_form && tutti::lengths_are_private(key.collective);
  request.level = op_rounds(key.op, key.dtype) ? level_of(key) : TUTTI_LEVEL_FAST;
  return request;
}

bool Communicator::can_move(const CallKey& key) const {
  Choice choice;
  return setting_.only_moves &&
         choose(runs_as(key), setting_, request_of(key), key.algorithm, key.unfused, &choice).ok();
}

Status Communicator::prepare(const CallKey& key, std::shared_ptr<Prepared>* out) {
  const Request request = request_of(key);
  const bool v_form = request.uneven;
  auto next = std::make_shared<Prepared>();
  TUTTI_TRY(choose(runs_as(key), setting_, request, key.algorithm, key.unfused, &next->choice));

  const Choice& choice = next->choice;
  next->key = key;
  if (!key.algorithm.empty()) next->key.algorithm = choice.algorithm->name;
  next->element_size = request.element_size;
  CallSignature& signature = next->signature;
  signature.count = key.count;
  signature.root = v_form && !is_rooted(key.collective) ? int32_t(key.lengths) : key.root;
  signature.collective = key.collective;
  signature.set_types(key.dtype, key.op);
  signature.flags =
      uint8_t(uint8_t(choice.path) | uint8_t(key.part_of) << CallSignature::compound_shift |
              (v_form ? CallSignature::v_form : 0));
  signature.level = uint8_t(level_of(key));
  signature.algorithm = uint16_t(choice.algorithm - algorithms().data());
  next->signature_hash = signature_hash(signature);
  next->ends_when_done =
      choice.path == Path::pull && !is_scan(key.collective) && !settings_.check_results;
  if (choice.path == Path::pull) {
    next->pull = plan::PullShape(key.collective, uint32_t(key.root), key.count, next->element_size,
                                 uint32_t(nranks_), uint32_t(rank_));
  }
  if (reduces(key.collective)) TUTTI_TRY(bind_operator(*next, request.level));
  if (choice.path == Path::schedule) {
    TUTTI_TRY(plan_for(*choice.algorithm, key.root,
                       v_form ? plan::Chunks::scattered : plan::Chunks::together,
                       schedule::bracketing_of(request.level), &next->plan));
  }
  *out = std::move(next);
  return {};
}

tutti_status Communicator::explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                             const CallSettings& settings, Choice* out) {
  Request request;
  request.nranks = uint32_t(nranks_);
  request.count = count;
  request.element_size = uint32_t(dtype_size(dtype));
  request.ordered = !op_commutes(op);
  Prepared prepared;
  prepared.key = {.count = count, .dtype = dtype, .op = op, .level = settings.level};
  request.level = op_rounds(op, dtype) ? level_of(prepared.key) : TUTTI_LEVEL_FAST;
  Status chosen = bind_operator(prepared, request.level);
  if (chosen.ok()) {
    chosen =
        choose(Collective::allreduce, setting_, request, settings.algorithm, settings.unfused, out);
  }
  return chosen.ok() ? TUTTI_OK : fail(std::move(chosen));
}

// ---------------------------------------------------------------- collectives

const std::shared_ptr<Prepared>* Communicator::find(const CallKey& key) {
  const uint32_t kind = uint32_t(key.root) ^ uint32_t(key.dtype) << 8 ^ uint32_t(key.op) << 13 ^
                        uint32_t(key.collective) << 18 ^ uint32_t(key.level) << 23 ^
                        uint32_t(key.algorithm.size()) << 26;
  const uint64_t hash = (key.count ^ key.lengths ^ (uint64_t(kind) << 20)) * 0x9e3779b97f4a7c15u;
  std::shared_ptr<Prepared>& prepared = prepared_[hash >> 58];
  if (prepared == nullptr || !(prepared->key == key)) [[unlikely]] {
    if (Status made = prepare(key, &prepared); !made.ok()) {
      fail(std::move(made));
      return nullptr;
    }
  }
  return &prepared;
}

tutti_status Communicator::run_on_host(const Call& call) {
  enter();
  if (in_flight_.load(std::memory_order_acquire) != 0) [[unlikely]]
    return run_behind(call);
  const std::shared_ptr<Prepared>* const found = find(call.key);
  if (found == nullptr) return last_error_.code();
  Prepared& prepared = **found;
  if (!call.input_aside && !call.output_aside && !prepared.premultiplies) [[likely]]
    return run(prepared, call);
  Call moved;
  if (Status aside = put_aside(prepared, call, &moved); !aside.ok()) {
    return give_up(std::move(aside), prepared.signature, calls() + 1);
  }
  const tutti_status ended = run(prepared, moved);
  if (ended == TUTTI_OK) bring_back(prepared, call);
  return ended;
}

Status Communicator::put_aside(const Prepared& prepared, const Call& asked, Call* call) {
  *call = asked;
  if (prepared.premultiplies) TUTTI_TRY(scale_input(prepared, call));
  if (!asked.input_aside && !asked.output_aside) return {};
  const size_t bytes = asked.aside_count * prepared.element_size;
  TUTTI_TRY(grow(&aside_, bytes, "a call in place"));
  if (asked.input_aside) {
    if (bytes != 0) std::memcpy(aside_.data(), asked.input, bytes);
    call->input = aside_.data();
  } else {
    call->output = aside_.data();
  }
  return {};
}

void Communicator::bring_back(const Prepared& prepared, const Call& asked) {
  const size_t bytes = asked.aside_count * prepared.element_size;
  if (asked.output_aside && bytes != 0) std::memcpy(asked.output, aside_.data(), bytes);
}

// One rank: its vector is the result, but for truth, which becomes 0 or 1.
tutti_status Communicator::run_alone(const Prepared& prepared, const Call& call) {
  const CallKey& key = prepared.key;
  const Collective collective = key.collective;
  if (collective == Collective::exscan) return TUTTI_OK;
  uint64_t count = key.count;
  const std::byte* from = call.input;
  std::byte* to = call.output;
  if (key.lengths != 0) {
    extents_of(Goal(collective, 1), 0, call, prepared.element_size, &extents_);
    count = extents_.begin[1] / prepared.element_size;
    from += extents_.input[0];
    to += extents_.output[0];
  }
  if (reduces(collective) && gives_truth(key.op, key.dtype)) {
    find_kernels(key.dtype, TUTTI_LOR).reduce2(to, from, from, count);
  } else if (from != to && count != 0) {
    std::memcpy(to, from, count * prepared.element_size);
  }
  return TUTTI_OK;
}

tutti_status Communicator::run(Prepared& prepared, const Call& call) {
  bool ended = false;
  Status status = begin_call(prepared, call, &ended);
  if (status.ok() && !ended) {
    if (prepared.ends_when_done && done_at_once()) return TUTTI_OK;
    status = complete_call(prepared, timeout_ns(call.timeout_ms));
    status = end_call(prepared, call, std::move(status));
  }
  if (status.ok()) [[likely]]
    return TUTTI_OK;
  return give_up(std::move(status), prepared.signature, calls());
}

// What nearly every call of a rank is that others are behind or ahead of.
bool Communicator::done_at_once() {
  return pull_->advance() && pull_->done() && pull_->failure().ok();
}

void Communicator::add_to_mark() {
  CallSignature& signature = mark_.signature;
  if (slice_of_ != 0) signature.count = slice_of_;
  signature.result = std::exchange(last_result_, 0);
  // Results are compared by digests of signatures alone.
  const uint64_t history = signature.result == 0 ? history_ : 0;
  mark_.digest = call_digest(mark_.epoch, signature_hash(signature) ^ history);
}

Status Communicator::begin_call(Prepared& prepared, const Call& call, bool* ended) {
  const uint64_t epoch = calls() + 1;
  epoch_.store(epoch, std::memory_order_relaxed);
  if (over_.load(std::memory_order_relaxed)) [[unlikely]]
    return {TUTTI_ABORTED, {}};
  if (link_ == nullptr) {
    *ended = true;
    run_alone(prepared, call);
    return {};
  }
  mark_.epoch = epoch;
  mark_.signature = prepared.signature;
  mark_.digest = call_digest(epoch, prepared.signature_hash ^ history_);
  if ((last_result_ | slice_of_) != 0) [[unlikely]]
    add_to_mark();
  // Of a v form whose lengths not all know, none may be said to be empty.
  const bool empty = prepared.key.count == 0 && !prepared.lengths_are_private();
  const Collective collective = prepared.key.collective;
  // Those in which a rank need not hear from all; of a v form a rank's blocks may all be empty.
  if (empty || is_rooted(collective) || is_scan(collective) || prepared.key.lengths != 0) {
    history_ = history_after(history_, epoch, prepared.signature_hash);
  }
  if (prepared.choice.path == Path::schedule) {
    link_->begin(mark_);
  } else {
    slots_->begin(mark_);
  }
  *ended = empty;
  if (empty) return {};
  switch (prepared.choice.path) {
    case Path::schedule:
      return begin_schedule(prepared, call);
    case Path::pull:
      pull_->start({&prepared.pull, &prepared.kernels, call.input, mark_.digest, call.output});
      return {};
    default:
      begin_fused(prepared, call);
      return {};
  }
}

void Communicator::begin_fused(const Prepared& prepared, const Call& asked) {
  const plan::FusedCall call{asked.input,           asked.output,     prepared.key.count,
                             prepared.element_size, prepared.kernels, mark_.digest};
  if (prepared.choice.path == Path::one_shot) {
    fused_->start_one_shot(call);
  } else if (prepared.choice.path == Path::two_level) {
    fused_->start_two_level(call);
  } else {
    fused_->start_two_shot(call);
  }
}

Status Communicator::begin_schedule(Prepared& prepared, const Call& call) {
  if (lengths_of_ == nullptr && prepared.lengths_are_private() && !call.lengths_agreed) {
    return begin_lengths(prepared, call);
  }
  lengths_of_ = nullptr;
  bind(*prepared.plan, prepared.key, prepared.element_size, call);
  return start_plan(*prepared.plan, prepared.kernels, call.input, call.output);
}

template <class LinkType>
bool Communicator::advance_schedule(LinkType& link) {
  const bool moved = run_.advance(link);
  if (lengths_of_ == nullptr || !run_.done()) [[likely]]
    return moved;
  // The lengths are there, the call itself comes next.
  path_failure_ = compare_lengths(*lengths_of_, *lengths_call_);
  if (path_failure_.ok()) path_failure_ = begin_schedule(*lengths_of_, *lengths_call_);
  lengths_of_ = nullptr;
  return true;
}

bool Communicator::advance_call(const Prepared& prepared) {
  switch (prepared.choice.path) {
    case Path::schedule:
      return slots_ != nullptr ? advance_schedule(*slots_) : advance_schedule(*link_);
    case Path::pull:
      return pull_->advance();
    default:
      return fused_->advance();
  }
}

bool Communicator::call_done(const Prepared& prepared) const {
  switch (prepared.choice.path) {
    case Path::schedule:
      return lengths_of_ == nullptr && (run_.done() || !path_failure_.ok());
    case Path::pull:
      return pull_->done();
    default:
      return fused_->done();
  }
}

Status Communicator::complete_call(const Prepared& prepared, uint64_t timeout_ns) {
  waits_in_ = &prepared;
  Status ended = complete_path(prepared, timeout_ns);
  if (watch_.posted()) [[unlikely]]
    watch_.leave();
  return ended;
}

// One loop for each path, so that its state machine is part of the loop.
Status Communicator::complete_path(const Prepared& prepared, uint64_t timeout_ns) {
  switch (prepared.choice.path) {
    case Path::schedule: {
      const auto done = [&] { return call_done(prepared); };
      return slots_ != nullptr ? complete(
                                     *slots_, patience_, timeout_ns,
                                     [this] { return advance_schedule(*slots_); }, done, &inspect_)
                               : complete(
                                     *link_, patience_, timeout_ns,
                                     [this] { return advance_schedule(*link_); }, done, &inspect_);
    }
    case Path::pull:
      return complete(
          *slots_, patience_, timeout_ns, [this] { return pull_->advance(); },
          [this] { return pull_->done(); }, &inspect_);
    default:
      return complete(
          *slots_, patience_, timeout_ns, [this] { return fused_->advance(); },
          [this] { return fused_->done(); }, &inspect_);
  }
}

Status Communicator::inspect_call(uint64_t now_ns) {
  Status found = link_->inspect(now_ns);
  // Another of the circle has found it first, and gone.
  if (found.code() == TUTTI_PEER_FAILED && watch_.in_circle(mark_)) return watch_.circle(mark_);
  if (!found.ok()) return found;
  return watch_.look(*link_, mark_, now_ns);
}

bool Communicator::needs(int peer) {
  const Prepared& prepared = *waits_in_;
  const CallKey& key = prepared.key;
  // Something of it is in what this rank gets. Blocks with lengths of their own may be empty.
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  const auto rank = uint32_t(rank_), source = uint32_t(peer);
  const uint32_t chunk = goal.block(source, rank);
  if (key.lengths == 0 && goal.gets(rank, chunk) && goal.combines(source, rank, chunk)) return true;
  // Or it is what the call is held up by: not where it is to receive, for what goes to it may fit
  // into buffers.
  switch (prepared.choice.path) {
    case Path::schedule:
      return run_.waits_to_receive_from() == peer;
    case Path::pull:
      return pull_->waits_for() == peer;
    default:
      return false;
  }
}

Status Communicator::end_call(const Prepared& prepared, const Call& call, Status ended) {
  const Path path = prepared.choice.path;
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    const int peer = waits_for(prepared);
    ended = {TUTTI_TIMEOUT, describe_wait(peer, mark_.epoch), peer, mark_.epoch};
  }
  if (path == Path::schedule) {
    if (!path_failure_.ok()) [[unlikely]]
      ended = std::exchange(path_failure_, {});
    if (!ended.ok()) lengths_of_ = nullptr;
    if (ended.ok() && prepared.kernels.divide != nullptr) [[unlikely]]
      average(prepared, call);
  } else if (path == Path::pull) {
    if (ended.ok() && !pull_->failure().ok()) [[unlikely]]
      ended = pull_->failure();
    if (!ended.ok()) [[unlikely]]
      pull_->withdraw();
  } else {
    if (ended.ok() && !fused_->failure().ok()) [[unlikely]]
      ended = fused_->failure();
    if (!ended.ok()) [[unlikely]]
      fused_->withdraw();
  }
  if (ended.ok() && is_scan(prepared.key.collective)) [[unlikely]]
    normalise_lone_vector(prepared, call);
  if (ended.ok() && settings_.check_results) [[unlikely]]
    last_result_ = digest_of_result(prepared, call);
  return ended;
}

uint32_t Communicator::digest_of_result(const Prepared& prepared, const Call& call) const {
  const CallKey& key = prepared.key;
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  const bool same = key.collective == Collective::allreduce ||
                    key.collective == Collective::broadcast ||
                    key.collective == Collective::allgather;
  if (!same) return 0;
  if (key.lengths == 0) {
    return uint32_t(hash_of_bytes(call.output, key.count * prepared.element_size * goal.blocks())) |
           1;
  }
  std::vector<uint64_t> blocks;  // an allgatherv's, which may lie anywhere
  uint64_t packed = 0;
  for (size_t r = 0; r < size_t(nranks_); ++r) {
    const uint64_t at = call.blocks->recv_displs != nullptr ? call.blocks->recv_displs[r] : packed;
    packed = at + call.blocks->recv_counts[r];
    blocks.push_back(hash_of_bytes(call.output + at * prepared.element_size,
                                   call.blocks->recv_counts[r] * prepared.element_size));
  }
  return uint32_t(hash_of(blocks)) | 1;
}

// The peer that the running call is held up by, -1 if none.
int Communicator::waits_for(const Prepared& prepared) {
  if (prepared.choice.path == Path::pull) return pull_->waits_for();
  if (prepared.choice.path != Path::schedule) return fused_->waits_for();
  const int from = run_.waits_to_receive_from();
  return from >= 0 ? from : run_.waits_to_send_to();
}

// Truth becomes 0 or 1 also where a scan has combined nothing yet.
void Communicator::normalise_lone_vector(const Prepared& prepared, const Call& call) const {
  const CallKey& key = prepared.key;
  if (!gives_truth(key.op, key.dtype) || rank_ != (key.collective == Collective::scan ? 0 : 1))
    return;
  find_kernels(key.dtype, TUTTI_LOR).reduce2(call.output, call.output, call.output, key.count);
}

void Communicator::bind(CachedPlan& cached, const CallKey& key, uint32_t element_size,
                        const Call& call) {
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  if (goal.blocks() == 1) {
    if (!cached.binding.bound_to(key.count, element_size)) {
      cached.binding.bind(key.count, element_size);
    }
    return;
  }
  if (key.lengths == 0 && cached.bound_to == key) return;
  extents_of(goal, uint32_t(rank_), call, element_size, &extents_);
  cached.binding.bind(extents_);
  cached.bound_to = key;
}

Status Communicator::start_plan(CachedPlan& cached, const Kernels& kernels, const std::byte* input,
                                std::byte* output) {
  TUTTI_TRY(grow(&scratch_, cached.binding.scratch_bytes(), cached.algorithm->name));
  // The executor writes to the input only where it is the output.
  run_.start(cached.binding, {const_cast<std::byte*>(input), output, scratch_.data()}, kernels);
  return {};
}

// Divides what this rank got by the number of vectors in it.
void Communicator::average(const Prepared& prepared, const Call& call) const {
  const CallKey& key = prepared.key;
  const auto rank = uint32_t(rank_);
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  const uint32_t chunk = goal.block(rank, rank);
  if (!goal.gets(rank, chunk)) return;
  uint32_t vectors = 0;
  for (uint32_t r = 0; r < goal.nranks(); ++r) vectors += goal.combines(r, rank, chunk);
  if (vectors == 1) return;  // it stays as it is, also where it is NaN
  const uint64_t count = key.lengths != 0 ? call.blocks->send_counts[rank_] : key.count;
  prepared.kernels.divide(call.output, count, vectors);
}

// The same collective with the lengths as blocks: so those at both ends of each block know them.
Status Communicator::begin_lengths(Prepared& prepared, const Call& call) {
  static constexpr Kernels none;
  const auto n = size_t(nranks_);
  const Blocks& blocks = *call.blocks;
  own_lengths_.assign(n, blocks.own);
  peer_lengths_.assign(n, 0);
  if (blocks.send_counts != nullptr) std::copy_n(blocks.send_counts, n, own_lengths_.begin());
  CallKey key = prepared.key;
  key.lengths = 0;
  key.count = 1;
  key.dtype = TUTTI_UINT64;
  CachedPlan* cached = nullptr;
  TUTTI_TRY(plan_for(*prepared.choice.algorithm, key.root, plan::Chunks::together,
                     schedule::Bracketing::left, &cached));
  Call exchange;
  exchange.key = key;
  bind(*cached, key, sizeof(uint64_t), exchange);
  lengths_of_ = &prepared;
  lengths_call_ = &call;
  return start_plan(*cached, none, reinterpret_cast<const std::byte*>(own_lengths_.data()),
                    reinterpret_cast<std::byte*>(peer_lengths_.data()));
}

Status Communicator::compare_lengths(const Prepared& prepared, const Call& call) const {
  const CallKey& key = prepared.key;
  const auto n = uint32_t(nranks_);
  const Blocks& blocks = *call.blocks;
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  for (uint32_t from = 0; from < n; ++from) {
    if (key.collective == Collective::scatter && from != goal.root()) continue;
    if (!goal.gets(uint32_t(rank_), goal.block(from, uint32_t(rank_)))) continue;
    const uint64_t sent = peer_lengths_[key.collective == Collective::scatter ? 0 : from];
    const uint64_t expected = blocks.recv_counts != nullptr ? blocks.recv_counts[from] : blocks.own;
    if (sent == expected) continue;
    return {TUTTI_MISMATCH,
            "rank " + std::to_string(from) + " sends " + std::to_string(sent) +
                " elements to rank " + std::to_string(rank_) + ", which expects " +
                std::to_string(expected),
            int(from), calls()};
  }
  return {};
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
  const std::shared_ptr<Prepared>* const found = find(last);
  if (found == nullptr) return last_error_.code();
  return give_up(std::move(status), (*found)->signature, epoch_);
}

void Communicator::break_down(Status status, const CallSignature& signature, uint64_t call) {
  const std::string where = call == 0 ? "in " : "in call " + std::to_string(call) + ", ";
  break_down(std::move(status), where + signature.describe(), call);
}

void Communicator::break_down(Status status, const std::string& where, uint64_t call) {
  over_.store(true, std::memory_order_release);
  if (broken_.ok()) {
    if (status.text().empty() && device_ != nullptr) status = device_->failure();
    if (status.text().empty() && link_ != nullptr) {  // aborted: the link knows why
      if (Status found = link_->inspect(now_ns()); !found.ok()) status = std::move(found);
    }
    if (status.ok()) status = {TUTTI_ABORTED, "the communicator is over"};
    if (link_ != nullptr) link_->abort(status);
    broken_ = {status.code(), where + ": " + status.text(), status.rank(), call};
    if (device_ != nullptr) device_->fail(broken_);
  }
}

}  // namespace tutti
