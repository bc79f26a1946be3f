#include "lib/comm/call_planner.h"

#include "algorithms/registry.h"
#include "lib/base/types.h"
#include "lib/base/user_types.h"
#include "lib/plan/blocks.h"
#include "lib/schedule/levels.h"

namespace tutti {

namespace {

// What each protocol needs in a CallPlan.
struct MakeReady {
  const Connection& connection;
  const Query& query;
  Schedules& schedules;
  CallPlan* plan;

  void operator()(shared::OneHop&, Link&) const {
    const CallKey& key = plan->key;
    plan->one_hop.emplace(key.collective, uint32_t(key.root), key.count, plan->element_size,
                          uint32_t(connection.nranks), uint32_t(connection.rank),
                          connection.capabilities.tuning);
    // Never with the program's operator: a blocking call runs it only under the limit of a wait.
    plan->ends_soon = plan->kernels.user == nullptr;
  }
  template <class LinkType>
  void operator()(Scheduled<LinkType>&&, Link&) const {
    plan->plan = schedules.plan_for(*plan->choice.algorithm, plan->key.root,
                                    query.uneven ? plan::Chunks::scattered : plan::Chunks::together,
                                    schedule::bracketing_of(query.level));
  }
  template <class Allreduce>
  void operator()(Allreduce&, Link&) const {
    plan->ends_soon = plan->kernels.user == nullptr;
  }
};

}  // namespace

Query CallPlanner::query_of(const CallKey& key) const {
  const auto nranks = uint32_t(connection_.nranks);
  const Goal goal(runs_as(key.collective), nranks, uint32_t(key.root));
  const bool v_form = key.lengths != 0;
  Query query;
  query.nranks = nranks;
  const uint64_t blocks = goal.blocks() == 1 || v_form ? 1 : uint64_t(nranks);
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

tutti_level CallPlanner::level_of(const CallKey& key) const {
  if (!reduces(key.collective) || key.collective == Collective::barrier) return TUTTI_LEVEL_FAST;
  return key.level != TUTTI_LEVEL_DEFAULT ? key.level : connection_.settings.level;
}

bool CallPlanner::can_move(const CallKey& key) const {
  Choice choice;
  return connection_.capabilities.copy_only &&
         choose(runs_as(key.collective), connection_.capabilities, query_of(key), key.algorithm,
                key.unfused, &choice)
             .ok();
}

const CallCache::Entry* CallPlanner::make(const CallKey& key) {
  CallCache::Entry made;
  if (Status failed = prepare(key, &made); !failed.ok()) {
    failures_.fail(std::move(failed));
    return nullptr;
  }
  return cache_.add(std::move(made));
}

Status CallPlanner::prepare(const CallKey& key, CallCache::Entry* out) {
  const Query query = query_of(key);
  const Capabilities& capabilities = connection_.capabilities;
  auto next = std::make_shared<CallPlan>();
  TUTTI_TRY(choose(runs_as(key.collective), capabilities, query, key.algorithm, key.unfused,
                   &next->choice));

  const Choice& choice = next->choice;
  next->key = key;
  if (!key.algorithm.empty()) next->key.algorithm = choice.algorithm->name;
  next->element_size = query.element_size;
  next->finishes = is_scan(key.collective) || connection_.settings.check_results;
  next->counts = decided_alike(key.count, query.element_size, capabilities);
  CallSignature& signature = next->signature;
  signature.root = key.root;
  signature.collective = key.collective;
  signature.set_types(key.dtype, key.op);
  signature.flags =
      uint8_t(uint8_t(choice.path) | uint8_t(key.part_of) << CallSignature::compound_shift |
              (query.uneven ? CallSignature::v_form : 0));
  signature.level = uint8_t(level_of(key));
  signature.algorithm = uint16_t(choice.algorithm - algorithms().data());
  if (reduces(key.collective)) TUTTI_TRY(bind_operator(*next, query.level));
  if (!protocols_.alone()) {
    protocols_.with(choice.path, MakeReady{connection_, query, protocols_.schedules(), next.get()});
  }
  next->set_size(key.count, key.lengths);
  *out = std::move(next);
  return {};
}

Status CallPlanner::bind_operator(CallPlan& call_plan, tutti_level level) const {
  const CallKey& key = call_plan.key;
  if (unsigned(key.op) < TUTTI_OP_COUNT) {
    return find_kernels(key.dtype, key.op, level, &call_plan.kernels);
  }
  UserOp op;
  if (!find_user_op(key.op, &op)) return {TUTTI_INVALID, "the operator has been freed"};
  if (op.function != nullptr) {
    call_plan.kernels.user = &call_plan.function;
    TUTTI_TRY(bind_function(op, key.dtype, level, &call_plan.function));
    call_plan.function.limit = limit_;
    return {};
  }
  if (op.communicator != connection_.serial) {
    return {TUTTI_INVALID, "the pre-multiplied sum was made for another communicator"};
  }
  call_plan.premultiplies = true;
  call_plan.scalar = op.scalar;
  return find_kernels(key.dtype, TUTTI_SUM, level, &call_plan.kernels);
}

tutti_status CallPlanner::explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                            const CallSettings& settings, Choice* out) {
  CallPlan call_plan;
  call_plan.key = {.count = count, .dtype = dtype, .op = op, .level = settings.level};
  const Query query = query_of(call_plan.key);
  Status chosen = bind_operator(call_plan, query.level);
  if (chosen.ok()) {
    chosen = choose(call_plan.key.collective, connection_.capabilities, query, settings.algorithm,
                    settings.unfused, out);
  }
  return chosen.ok() ? TUTTI_OK : failures_.fail(std::move(chosen));
}

}  // namespace tutti
