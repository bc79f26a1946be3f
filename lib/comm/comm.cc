#include "lib/comm/comm.h"

#include <algorithm>

#include "lib/comm/blocks.h"
#include "lib/plan/lower.h"
#include "lib/types.h"

namespace tutti {

namespace {

// Whether what comes out is 0 or 1, whatever went in.
bool gives_truth(const CallKey& key) {
  const bool logical = key.op == TUTTI_LAND || key.op == TUTTI_LOR || key.op == TUTTI_LXOR;
  return reduces(key.collective) && (logical || key.dtype == TUTTI_BOOL);
}

Status grow(std::vector<std::byte>* memory, size_t bytes, const char* algorithm) {
  if (memory->size() >= bytes) return {};
  try {
    memory->resize(bytes);
  } catch (const std::bad_alloc&) {
    return {TUTTI_NO_MEMORY,
            "cannot allocate " + std::to_string(bytes) + " bytes of scratch for " + algorithm};
  }
  return {};
}

}  // namespace

// A lowered schedule and its last binding; one per algorithm, root and form.
struct Communicator::CachedPlan {
  const Algorithm* algorithm;
  int root;
  bool scattered;
  plan::Plan plan;
  plan::Binding binding;
  CallKey bound_to;  // of collectives of equal blocks: what the binding is for

  CachedPlan(const Algorithm* algorithm, int root, bool scattered, plan::Plan lowered)
      : algorithm(algorithm),
        root(root),
        scattered(scattered),
        plan(std::move(lowered)),
        binding(plan) {}
};

Communicator::Communicator() = default;
Communicator::~Communicator() = default;

tutti_status Communicator::fail(Status status) {
  last_error_ = std::move(status);
  return last_error_.code();
}

void Communicator::abort(std::string_view reason) {
  over_.store(true, std::memory_order_release);
  if (link_ == nullptr) return;
  std::string text = "rank " + std::to_string(rank_) + " called tutti_comm_abort()";
  if (!reason.empty()) text.append(": ").append(reason);
  link_->abort({TUTTI_ABORTED, std::move(text), rank_});
}

// ---------------------------------------------------------------- preparing a call

Status Communicator::plan_for(const Algorithm& algorithm, int root, bool scattered,
                              CachedPlan** out) {
  for (const auto& cached : plans_) {
    if (cached->algorithm == &algorithm && cached->root == root && cached->scattered == scattered) {
      *out = cached.get();
      return {};
    }
  }
  const schedule::Shape shape{.rank = uint32_t(rank_),
                              .nranks = uint32_t(nranks_),
                              .root = uint32_t(root),
                              .radix = group_size(setting_)};
  plans_.push_back(std::make_unique<CachedPlan>(&algorithm, root, scattered,
                                                plan::lower(algorithm, shape, scattered)));
  *out = plans_.back().get();
  return {};
}

Status Communicator::prepare(const CallKey& key, std::unique_ptr<Prepared>* out) {
  // A barrier runs as an allreduce of one byte, whatever it holds.
  const Collective runs_as =
      key.collective == Collective::barrier ? Collective::allreduce : key.collective;
  const Goal goal(runs_as, uint32_t(nranks_), uint32_t(key.root));
  const bool v_form = key.lengths != 0;
  Request request;
  request.nranks = uint32_t(nranks_);
  request.count = key.count * (goal.blocks() == 1 || v_form ? 1 : uint64_t(nranks_));
  request.element_size = uint32_t(dtype_size(key.dtype));
  request.root = uint32_t(key.root);
  request.ordered = reduces(key.collective) && !op_commutes(key.op);
  request.uneven = v_form;
  request.private_lengths = v_form && lengths_are_private(key.collective);
  auto next = std::make_unique<Prepared>();
  TUTTI_TRY(choose(runs_as, setting_, request, key.algorithm, key.unfused, &next->choice));

  const Choice& choice = next->choice;
  next->key = key;
  if (!key.algorithm.empty()) next->key.algorithm = choice.algorithm->name;
  next->element_size = request.element_size;
  CallSignature& signature = next->signature;
  signature.count = key.count;
  signature.root = v_form && !is_rooted(key.collective) ? int32_t(key.lengths) : key.root;
  signature.collective = key.collective;
  signature.set_types(key.dtype, key.op);
  signature.flags = uint8_t(choice.path) | (v_form ? CallSignature::v_form : 0);
  signature.algorithm = uint16_t(choice.algorithm - algorithms().data());
  next->signature_hash = signature_hash(signature);
  if (reduces(key.collective)) TUTTI_TRY(bind_operator(*next));
  if (choice.path == Path::schedule) {
    TUTTI_TRY(plan_for(*choice.algorithm, key.root, v_form, &next->plan));
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
  Status chosen =
      choose(Collective::allreduce, setting_, request, settings.algorithm, settings.unfused, out);
  return chosen.ok() ? TUTTI_OK : fail(std::move(chosen));
}

// ---------------------------------------------------------------- collectives

Communicator::Prepared* Communicator::find(const CallKey& key) {
  const uint64_t hash = ((key.count + 31 * uint64_t(key.root)) * 0x9e3779b97f4a7c15u) ^
                        (uint64_t(key.dtype) << 59) ^ (uint64_t(key.op) << 61) ^
                        (uint64_t(key.collective) << 60) ^ key.lengths ^
                        (key.algorithm.size() * 0xff51afd7ed558ccdu);
  std::unique_ptr<Prepared>& prepared = prepared_[hash >> 58];
  if (prepared == nullptr || !(prepared->key == key)) [[unlikely]] {
    if (Status made = prepare(key, &prepared); !made.ok()) {
      fail(std::move(made));
      return nullptr;
    }
  }
  return prepared.get();
}

tutti_status Communicator::run(const Call& call) {
  Prepared* const prepared = find(call.key);
  if (prepared == nullptr) return last_error_.code();
  if (!call.input_aside && !call.output_aside && !prepared->premultiplies) [[likely]]
    return run(*prepared, call);
  Call moved = call;
  if (prepared->premultiplies) {
    if (Status scaled = scale_input(*prepared, &moved); !scaled.ok()) {
      return give_up(std::move(scaled), prepared->signature, epoch_ + 1);
    }
  }
  if (!call.input_aside && !call.output_aside) return run(*prepared, moved);
  const size_t bytes = call.aside_count * prepared->element_size;
  if (Status grown = grow(&aside_, bytes, "a call in place"); !grown.ok()) {
    return give_up(std::move(grown), prepared->signature, epoch_ + 1);
  }
  if (call.input_aside) {
    if (bytes != 0) std::memcpy(aside_.data(), call.input, bytes);
    moved.input = aside_.data();
    return run(*prepared, moved);
  }
  moved.output = aside_.data();
  const tutti_status ended = run(*prepared, moved);
  if (ended == TUTTI_OK && bytes != 0) std::memcpy(call.output, aside_.data(), bytes);
  return ended;
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
  if (gives_truth(key)) {
    find_kernels(key.dtype, TUTTI_LOR).reduce2(to, from, from, count);
  } else if (from != to && count != 0) {
    std::memcpy(to, from, count * prepared.element_size);
  }
  return TUTTI_OK;
}

tutti_status Communicator::run(Prepared& prepared, const Call& call) {
  if (over_.load(std::memory_order_relaxed)) [[unlikely]] {
    return give_up({TUTTI_ABORTED, {}}, prepared.signature, epoch_ + 1);
  }
  const uint64_t epoch = ++epoch_;
  if (link_ == nullptr) return run_alone(prepared, call);
  if (unconfirmed_.epoch != 0) [[unlikely]] {
    if (Status confirmed = link_->confirm(unconfirmed_); !confirmed.ok()) {
      return give_up(std::move(confirmed), prepared.signature, epoch);
    }
    unconfirmed_.epoch = 0;
  }
  const CallMark mark{epoch, prepared.signature, call_digest(epoch, prepared.signature_hash)};
  // Of a v form whose lengths not all know, none may be said to be empty.
  const bool empty = prepared.key.count == 0 &&
                     !(prepared.key.lengths != 0 && lengths_are_private(prepared.key.collective));
  const Collective collective = prepared.key.collective;
  // Those in which a rank need not hear from all; of a v form a rank's blocks may all be empty.
  if (empty || is_rooted(collective) || is_scan(collective) || prepared.key.lengths != 0) {
    unconfirmed_ = mark;
  }
  Status ended;
  if (prepared.choice.path != Path::schedule) {
    slots_->begin(mark);
    if (empty) return TUTTI_OK;
    ended = prepared.choice.path == Path::pull ? run_pull(prepared, mark, call)
                                               : run_fused(prepared, mark, call);
  } else {
    link_->begin(mark);
    if (empty) return TUTTI_OK;
    ended = run_schedule(prepared, call);
  }
  if (ended.ok()) [[likely]] {
    if (is_scan(collective)) [[unlikely]]
      normalise_lone_vector(prepared, call);
    return TUTTI_OK;
  }
  return give_up(std::move(ended), prepared.signature, epoch);
}

// Truth becomes 0 or 1 also where a scan has combined nothing yet.
void Communicator::normalise_lone_vector(const Prepared& prepared, const Call& call) const {
  const CallKey& key = prepared.key;
  if (!gives_truth(key) || rank_ != (key.collective == Collective::scan ? 0 : 1)) return;
  find_kernels(key.dtype, TUTTI_LOR).reduce2(call.output, call.output, call.output, key.count);
}

Status Communicator::run_pull(const Prepared& prepared, const CallMark& mark, const Call& call) {
  pull_->start({prepared.key.collective, uint32_t(prepared.key.root), call.input, call.output,
                prepared.key.count, prepared.element_size, prepared.kernels, mark.digest});
  Status ended = complete(
      *slots_, patience_, timeout_ns(call.timeout_ms), [this] { return pull_->advance(); },
      [this] { return pull_->done(); });
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    const int peer = pull_->waits_for();
    ended = {TUTTI_TIMEOUT, describe_wait(peer, mark.epoch), peer, mark.epoch};
  }
  return ended;
}

Status Communicator::run_fused(const Prepared& prepared, const CallMark& mark, const Call& asked) {
  const plan::FusedCall call{asked.input,           asked.output,     prepared.key.count,
                             prepared.element_size, prepared.kernels, mark.digest};
  if (prepared.choice.path == Path::one_shot) {
    fused_->start_one_shot(call);
  } else if (prepared.choice.path == Path::two_level) {
    fused_->start_two_level(call);
  } else {
    fused_->start_two_shot(call);
  }
  Status ended = complete(
      *slots_, patience_, timeout_ns(asked.timeout_ms), [this] { return fused_->advance(); },
      [this] { return fused_->done(); });
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    const int peer = fused_->waits_for();
    ended = {TUTTI_TIMEOUT, describe_wait(peer, mark.epoch), peer, mark.epoch};
  }
  if (ended.ok() && !fused_->failure().ok()) [[unlikely]]
    ended = fused_->failure();
  if (!ended.ok()) [[unlikely]]
    fused_->withdraw();
  return ended;
}

Status Communicator::run_schedule(Prepared& prepared, const Call& call) {
  const uint64_t limit_ns = timeout_ns(call.timeout_ms);
  if (prepared.key.lengths != 0 && lengths_are_private(prepared.key.collective)) {
    TUTTI_TRY(compare_lengths(prepared, call, limit_ns));
  }
  bind(*prepared.plan, prepared, call);
  TUTTI_TRY(run_plan(*prepared.plan, prepared.kernels, call.input, call.output, limit_ns));
  if (prepared.kernels.divide != nullptr) [[unlikely]]
    average(prepared, call);
  return {};
}

void Communicator::bind(CachedPlan& cached, const Prepared& prepared, const Call& call) {
  const CallKey& key = prepared.key;
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  if (goal.blocks() == 1) {
    if (!cached.binding.bound_to(key.count, prepared.element_size)) {
      cached.binding.bind(key.count, prepared.element_size);
    }
    return;
  }
  if (key.lengths == 0 && cached.bound_to == key) return;
  extents_of(goal, uint32_t(rank_), call, prepared.element_size, &extents_);
  cached.binding.bind(extents_);
  cached.bound_to = key;
}

Status Communicator::run_plan(CachedPlan& cached, const Kernels& kernels, const std::byte* input,
                              std::byte* output, uint64_t timeout_ns) {
  TUTTI_TRY(grow(&scratch_, cached.binding.scratch_bytes(), cached.algorithm->name));
  // The executor writes to the input only where it is the output.
  run_.start(cached.binding, {const_cast<std::byte*>(input), output, scratch_.data()}, kernels);
  const auto done = [this] { return run_.done(); };
  Status ended =
      slots_ != nullptr
          ? complete(
                *slots_, patience_, timeout_ns, [this] { return run_.advance(*slots_); }, done)
          : complete(
                *link_, patience_, timeout_ns, [this] { return run_.advance(*link_); }, done);
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    const int from = run_.waits_to_receive_from();
    const int peer = from >= 0 ? from : run_.waits_to_send_to();
    ended = {TUTTI_TIMEOUT, describe_wait(peer, epoch_), peer, epoch_};
  }
  return ended;
}

// Divides what this rank got by the number of vectors in it.
void Communicator::average(const Prepared& prepared, const Call& call) const {
  const CallKey& key = prepared.key;
  const auto rank = uint32_t(rank_);
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  const uint32_t chunk = goal.blocks() == 1 ? 0 : rank;  // a reduce_scatter's own
  if (!goal.gets(rank, chunk)) return;
  uint32_t vectors = 0;
  for (uint32_t r = 0; r < goal.nranks(); ++r) vectors += goal.combines(r, rank, chunk);
  const uint64_t count = key.lengths != 0 ? call.blocks->send_counts[rank_] : key.count;
  prepared.kernels.divide(call.output, count, vectors);
}

// The same collective with the lengths as blocks: so those at both ends of each block know them.
Status Communicator::compare_lengths(const Prepared& prepared, const Call& call,
                                     uint64_t timeout_ns) {
  const CallKey& key = prepared.key;
  const auto n = size_t(nranks_);
  const Blocks& blocks = *call.blocks;
  std::vector<uint64_t> mine(n, blocks.own), theirs(n);
  if (blocks.send_counts != nullptr) std::copy_n(blocks.send_counts, n, mine.begin());
  Prepared lengths = prepared;
  lengths.key.lengths = 0;
  lengths.key.count = 1;
  lengths.key.dtype = TUTTI_UINT64;
  lengths.element_size = sizeof(uint64_t);
  TUTTI_TRY(plan_for(*prepared.choice.algorithm, key.root, false, &lengths.plan));
  Call exchange;
  exchange.key = lengths.key;
  bind(*lengths.plan, lengths, exchange);
  TUTTI_TRY(run_plan(*lengths.plan, {}, reinterpret_cast<const std::byte*>(mine.data()),
                     reinterpret_cast<std::byte*>(theirs.data()), timeout_ns));
  const Goal goal(key.collective, uint32_t(nranks_), uint32_t(key.root));
  const auto chunk = [&](uint32_t from, uint32_t to) {
    if (key.collective == Collective::alltoall) return from * goal.nranks() + to;
    return key.collective == Collective::gather ? from : to;
  };
  for (uint32_t from = 0; from < n; ++from) {
    if (key.collective == Collective::scatter && from != goal.root()) continue;
    if (!goal.gets(uint32_t(rank_), chunk(from, uint32_t(rank_)))) continue;
    const uint64_t sent = theirs[key.collective == Collective::scatter ? 0 : from];
    const uint64_t expected = blocks.recv_counts != nullptr ? blocks.recv_counts[from] : blocks.own;
    if (sent == expected) continue;
    return {TUTTI_MISMATCH,
            "rank " + std::to_string(from) + " sends " + std::to_string(sent) +
                " elements to rank " + std::to_string(rank_) + ", which expects " +
                std::to_string(expected),
            int(from), epoch_};
  }
  return {};
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

tutti_status Communicator::give_up(Status status, const CallSignature& signature, uint64_t call) {
  over_.store(true, std::memory_order_release);
  if (broken_.ok()) {
    if (status.text().empty() && link_ != nullptr) {  // aborted: the link knows why
      if (Status found = link_->inspect(now_ns()); !found.ok()) status = std::move(found);
    }
    if (link_ != nullptr) link_->abort(status);
    std::string text = call == 0 ? std::string("in ") : "in call " + std::to_string(call) + ", ";
    text += signature.describe() + ": " + status.text();
    broken_ = {status.code(), std::move(text), status.rank(), call};
  }
  return fail(broken_);
}

}  // namespace tutti
