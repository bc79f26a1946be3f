#include "lib/comm/comm.h"

#include <algorithm>

#include "lib/plan/lower.h"
#include "lib/types.h"

namespace tutti {

namespace {

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

// A lowered schedule and its last binding; one per algorithm and root.
struct Communicator::CachedPlan {
  const Algorithm* algorithm;
  int root;
  plan::Plan plan;
  plan::Binding binding;

  CachedPlan(const Algorithm* algorithm, int root, plan::Plan lowered)
      : algorithm(algorithm), root(root), plan(std::move(lowered)), binding(plan) {}
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

Status Communicator::plan_for(const Algorithm& algorithm, int root, CachedPlan** out) {
  for (const auto& cached : plans_) {
    if (cached->algorithm == &algorithm && cached->root == root) {
      *out = cached.get();
      return {};
    }
  }
  const schedule::Shape shape{.rank = uint32_t(rank_),
                              .nranks = uint32_t(nranks_),
                              .root = uint32_t(root),
                              .radix = group_size(setting_)};
  plans_.push_back(std::make_unique<CachedPlan>(&algorithm, root, plan::lower(algorithm, shape)));
  *out = plans_.back().get();
  return {};
}

Status Communicator::prepare(const CallKey& key, std::unique_ptr<Prepared>* out) {
  Request request;
  request.nranks = uint32_t(nranks_);
  request.count = key.count;
  request.element_size = uint32_t(dtype_size(key.dtype));
  request.root = uint32_t(key.root);
  request.ordered = !op_commutes(key.op);
  // A barrier runs as an allreduce of one byte, whatever it holds.
  const Collective runs_as =
      key.collective == Collective::barrier ? Collective::allreduce : key.collective;
  auto next = std::make_unique<Prepared>();
  TUTTI_TRY(choose(runs_as, setting_, request, key.algorithm, key.unfused, &next->choice));

  const Choice& choice = next->choice;
  next->key = key;
  if (!key.algorithm.empty()) next->key.algorithm = choice.algorithm->name;
  next->element_size = request.element_size;
  next->signature.count = key.count;
  next->signature.root = key.root;
  next->signature.collective = key.collective;
  next->signature.set_types(key.dtype, key.op);
  next->signature.flags = uint8_t(choice.path);
  next->signature.algorithm = uint16_t(choice.algorithm - algorithms().data());
  next->signature_hash = signature_hash(next->signature);
  if (key.collective != Collective::broadcast) TUTTI_TRY(bind_operator(*next));
  if (choice.path == Path::schedule) {
    TUTTI_TRY(plan_for(*choice.algorithm, key.root, &next->plan));
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

tutti_status Communicator::call(const CallKey& key, const void* input, void* output,
                                int64_t timeout_ms) {
  const uint64_t hash = ((key.count + 31 * uint64_t(key.root)) * 0x9e3779b97f4a7c15u) ^
                        (uint64_t(key.dtype) << 59) ^ (uint64_t(key.op) << 61) ^
                        (uint64_t(key.collective) << 60) ^
                        (key.algorithm.size() * 0xff51afd7ed558ccdu);
  std::unique_ptr<Prepared>& prepared = prepared_[hash >> 58];
  if (prepared == nullptr || !(prepared->key == key)) [[unlikely]] {
    if (Status made = prepare(key, &prepared); !made.ok()) return fail(std::move(made));
  }
  return run(*prepared, input, output, timeout_ms);
}

tutti_status Communicator::allreduce(const void* input, void* output, uint64_t count,
                                     tutti_dtype dtype, tutti_op op, const CallSettings& settings) {
  return call({count, 0, Collective::allreduce, dtype, op, settings.unfused, settings.algorithm},
              input != nullptr ? input : output, output, settings.timeout_ms);
}

tutti_status Communicator::reduce(const void* input, void* output, uint64_t count,
                                  tutti_dtype dtype, tutti_op op, int root,
                                  const CallSettings& settings) {
  return call({count, root, Collective::reduce, dtype, op, settings.unfused, settings.algorithm},
              input != nullptr ? input : output, rank_ == root ? output : nullptr,
              settings.timeout_ms);
}

tutti_status Communicator::broadcast(void* buffer, uint64_t count, tutti_dtype dtype, int root,
                                     const CallSettings& settings) {
  return call(
      {count, root, Collective::broadcast, dtype, TUTTI_SUM, settings.unfused, settings.algorithm},
      buffer, buffer, settings.timeout_ms);
}

tutti_status Communicator::barrier(const CallSettings& settings) {
  const uint8_t mine = 0;
  uint8_t all = 0;
  return call(
      {1, 0, Collective::barrier, TUTTI_UINT8, TUTTI_MAX, settings.unfused, settings.algorithm},
      &mine, &all, settings.timeout_ms);
}

// One rank: its vector is the result, but for truth, which becomes 0 or 1.
tutti_status Communicator::run_alone(const Prepared& prepared, const void* input, void* output) {
  const uint64_t count = prepared.key.count;
  const tutti_op op = prepared.key.op;
  if (op == TUTTI_LAND || op == TUTTI_LOR || op == TUTTI_LXOR || prepared.key.dtype == TUTTI_BOOL) {
    find_kernels(prepared.key.dtype, TUTTI_LOR).reduce2(output, input, input, count);
  } else if (input != output && count != 0) {
    std::memcpy(output, input, count * prepared.element_size);
  }
  return TUTTI_OK;
}

tutti_status Communicator::run(Prepared& prepared, const void* input, void* output,
                               int64_t timeout_ms) {
  if (over_.load(std::memory_order_relaxed)) [[unlikely]] {
    return give_up({TUTTI_ABORTED, {}}, prepared.signature, epoch_ + 1);
  }
  const uint64_t epoch = ++epoch_;
  const uint64_t count = prepared.key.count;
  if (prepared.premultiplies) [[unlikely]] {
    if (Status scaled = scale_input(prepared, &input, output); !scaled.ok()) {
      return give_up(std::move(scaled), prepared.signature, epoch);
    }
  }
  if (link_ == nullptr) return run_alone(prepared, input, output);
  if (unconfirmed_.epoch != 0) [[unlikely]] {
    if (Status confirmed = link_->confirm(unconfirmed_); !confirmed.ok()) {
      return give_up(std::move(confirmed), prepared.signature, epoch);
    }
    unconfirmed_.epoch = 0;
  }
  const CallMark mark{epoch, prepared.signature, call_digest(epoch, prepared.signature_hash)};
  if (is_rooted(prepared.key.collective) || count == 0) unconfirmed_ = mark;
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  Status ended;
  if (prepared.choice.path != Path::schedule) {
    slots_->begin(mark);
    if (count == 0) return TUTTI_OK;
    ended = run_fused(prepared, mark, from, to, timeout_ns(timeout_ms));
  } else {
    link_->begin(mark);
    if (count == 0) return TUTTI_OK;
    ended = run_plan(prepared, from, to, timeout_ns(timeout_ms));
  }
  if (ended.ok()) [[likely]]
    return TUTTI_OK;
  return give_up(std::move(ended), prepared.signature, epoch);
}

Status Communicator::run_fused(const Prepared& prepared, const CallMark& mark,
                               const std::byte* input, std::byte* output, uint64_t timeout_ns) {
  const plan::FusedCall call{
      input, output, prepared.key.count, prepared.element_size, prepared.kernels, mark.digest};
  if (prepared.choice.path == Path::one_shot) {
    fused_->start_one_shot(call);
  } else if (prepared.choice.path == Path::two_level) {
    fused_->start_two_level(call);
  } else {
    fused_->start_two_shot(call);
  }
  Status ended = complete(
      *slots_, patience_, timeout_ns, [this] { return fused_->advance(); },
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

Status Communicator::run_plan(Prepared& prepared, const std::byte* input, std::byte* output,
                              uint64_t timeout_ns) {
  CachedPlan& cached = *prepared.plan;
  if (!cached.binding.bound_to(prepared.key.count, prepared.element_size)) {
    cached.binding.bind(prepared.key.count, prepared.element_size);
  }
  TUTTI_TRY(grow(&scratch_, cached.binding.scratch_bytes(), cached.algorithm->name));
  const bool gets = gets_result(prepared.key.collective, uint32_t(rank_), uint32_t(cached.root));
  if (!gets && cached.plan.writes_output) {
    TUTTI_TRY(grow(&work_, prepared.key.count * prepared.element_size, cached.algorithm->name));
    output = work_.data();
  }
  // The executor writes to the input only where it is the output.
  run_.start(cached.binding, {const_cast<std::byte*>(input), output, scratch_.data()},
             prepared.kernels);
  const auto done = [this] { return run_.done(); };
  Status ended =
      slots_ != nullptr
          ? complete(
                *slots_, patience_, timeout_ns, [this] { return run_.advance(*slots_); }, done)
          : complete(
                *link_, patience_, timeout_ns, [this] { return run_.advance(*link_); }, done);
  if (ended.ok()) {
    if (prepared.kernels.divide != nullptr && gets) {
      prepared.kernels.divide(output, prepared.key.count, uint32_t(nranks_));
    }
  } else if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    const int from = run_.waits_to_receive_from();
    const int peer = from >= 0 ? from : run_.waits_to_send_to();
    ended = {TUTTI_TIMEOUT, describe_wait(peer, epoch_), peer, epoch_};
  }
  return ended;
}

// ---------------------------------------------------------------- point to point

tutti_status Communicator::send(const void* buffer, uint64_t count, tutti_dtype dtype, int peer,
                                int tag, const CallSettings& settings) {
  return transfer(const_cast<std::byte*>(static_cast<const std::byte*>(buffer)), count, dtype, peer,
                  tag, true, settings);
}

tutti_status Communicator::recv(void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag,
                                const CallSettings& settings) {
  return transfer(static_cast<std::byte*>(buffer), count, dtype, peer, tag, false, settings);
}

tutti_status Communicator::transfer(std::byte* buffer, uint64_t count, tutti_dtype dtype, int peer,
                                    int tag, bool sends, const CallSettings& settings) {
  CallSignature signature;
  signature.count = count;
  signature.root = tag;
  signature.algorithm = 0xffff;
  signature.collective = Collective::point_to_point;
  signature.set_types(dtype, TUTTI_SUM);
  if (over_.load(std::memory_order_relaxed)) return give_up({TUTTI_ABORTED, {}}, signature, 0);
  uint64_t& messages = sends ? sends_[peer] : receives_[peer];
  // Messages of a pair are numbered apart from the collective calls.
  constexpr uint64_t message_bit = uint64_t{1} << 63;
  CallMark mark{0, signature, call_digest(message_bit | ++messages, signature)};
  mark.peer = peer;
  link_->begin(mark);

  const uint64_t bytes = count * dtype_size(dtype);
  uint64_t done = 0;
  const auto advance = [&] {
    const size_t moved = sends ? link_->try_send(peer, buffer + done, bytes - done)
                               : link_->try_recv(peer, buffer + done, bytes - done);
    done += moved;
    return moved != 0;
  };
  if (bytes == 0) return TUTTI_OK;
  Status ended = complete(*link_, patience_, timeout_ns(settings.timeout_ms), advance,
                          [&] { return done == bytes; });
  if (ended.ok()) return TUTTI_OK;
  if (ended.code() == TUTTI_TIMEOUT && ended.text().empty()) {
    ended = {TUTTI_TIMEOUT, describe_wait(peer, 0), peer};
  }
  return give_up(std::move(ended), signature, 0);
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
