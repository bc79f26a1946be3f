#include "lib/comm/call_planner.h"

#include <algorithm>

#include "algorithms/registry.h"
#include "lib/base/log.h"
#include "lib/base/types.h"
#include "lib/base/user_types.h"
#include "lib/plan/blocks.h"
#include "lib/schedule/levels.h"

namespace tutti {

namespace {

// By slices in one-hop's ring.
bool is_in_ring(Path path) { return path == Path::sliced_one_shot || path == Path::one_hop; }

shared::OneHopShape shape_for(const Connection& connection, const CallPlan& plan) {
  return {runs_as(plan.key.collective),
          uint32_t(plan.key.root),
          plan.key.count,
          plan.element_size,
          uint32_t(connection.nranks),
          uint32_t(connection.rank),
          connection.capabilities.tuning};
}

CachedPlan* plan_for(Schedules& schedules, const Algorithm& algorithm, int root,
                     const Query& query) {
  return schedules.plan_for(algorithm, root,
                            query.uneven ? plan::Chunks::scattered : plan::Chunks::together,
                            schedule::bracketing_of(query.level));
}

// What each protocol needs in a CallPlan.
struct MakeReady {
  const Query& query;
  Schedules& schedules;
  CallPlan* plan;

  template <class LinkType>
  void operator()(Scheduled<LinkType>&&, Link&) const {
    plan->plan = plan_for(schedules, *plan->choice.algorithm, plan->key.root, query);
  }
  template <class Fused>
  void operator()(Fused&, Link&) const {
    // Never with the program's operator: a blocking call runs it only under the limit of a wait.
    plan->ends_soon = plan->kernels.user == nullptr;
  }
};

std::string describe(const Way& way) {
  if (way.route.path == Path::schedule) return "step by step";
  if (way.manner.single_copy)
    return way.manner.past ? "single copy, results past the caches" : "single copy";
  const bool whole = way.route.path == Path::one_shot || way.route.path == Path::one_shot_or_direct;
  return std::string(whole ? "in one piece" : "in slices") + (way.manner.staged ? ", staged" : "") +
         (way.manner.narrow ? ", ring in cache" : "") +
         (way.manner.whole ? " as long as can be" : "") +
         (way.manner.own_first ? ", own result first" : "") +
         (way.manner.one_shot ? ", one-shot where mapped" : "") +
         (way.manner.past ? ", results past the caches" : "") +
         (way.manner.stores == shared::SliceStores::plain          ? ", plain stores"
          : way.manner.stores == shared::SliceStores::non_temporal ? ", non-temporal stores"
                                                                   : "");
}

// To be called with the trial's ways.
void explain_trial(const std::vector<Way>& ways, const Trial& trial, Explained* out) {
  const uint32_t settled = trial.settled();
  out->way = describe(ways[settled]);
  if (trial.median_ns(settled) == 0) return;
  uint32_t next = settled;
  for (uint32_t way = 0; way < ways.size(); ++way) {
    if (way == settled || trial.median_ns(way) == 0) continue;
    if (next == settled || trial.median_ns(way) < trial.median_ns(next)) next = way;
  }
  Choice& choice = out->choice;
  choice.algorithm = ways[settled].route.algorithm;
  choice.path = ways[settled].route.path;
  choice.predicted_us = ways[settled].route.predicted_us;
  choice.reason = "was fastest of " + std::to_string(ways.size()) +
                  " ways with the same bits, tried in earlier calls";
  out->measured_ns = trial.median_ns(settled);
  if (next == settled) return;
  choice.runner_up = ways[next].route.algorithm;
  choice.runner_up_us = ways[next].route.predicted_us;
  out->runner_up_way = describe(ways[next]);
  out->runner_up_measured_ns = trial.median_ns(next);
}

}  // namespace

void CallPlan::go(uint32_t other) {
  way = other;
  choice.algorithm = ways[way].route.algorithm;
  choice.path = ways[way].route.path;
  plan = ways[way].plan;
  manner = ways[way].manner;
  signature.algorithm = uint16_t(choice.algorithm - algorithms().data());
  signature.flags &= uint8_t(~(CallSignature::path_mask | CallSignature::whole_slices));
  signature.flags |= uint8_t(choice.path) | (manner.whole ? CallSignature::whole_slices : 0);
  if (one_hop) one_hop->vary(manner.whole, manner.past);
  hash_without_count = tutti::hash_without_count(signature);
  signature_hash = hash_with(hash_without_count, key.count);
}

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

CallKey CallPlanner::with_level(CallKey key) const {
  key.level = level_of(key);
  return key;
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
  if (logging()) {
    log(TUTTI_LOG_INFO, rank_name(connection_.rank) + ": " + made->signature.describe() + ": " +
                            made->choice.reason);
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
  next->always_finishes = next->finishes;
  if (!protocols_.alone()) {
    protocols_.with(choice.path, MakeReady{query, protocols_.schedules(), next.get()});
    find_ways(query, next.get());
    add_trial(next.get());
    // Where nothing says whether reading in place is faster, ranks may run ahead of each other.
    if (next->trial == nullptr && ends_unheard(key.collective, false, false))
      next->manner.staged = true;
    provide(query, next.get());
  }
  next->set_size(key.count, key.lengths);
  *out = std::move(next);
  return {};
}

// What all ranks derive alike, whatever their own settings say: those overrule the stores and the
// copying on their rank alone.
void CallPlanner::find_ways(const Query& query, CallPlan* plan) const {
  const CallKey& key = plan->key;
  const Capabilities& capabilities = connection_.capabilities;
  const Tuning& tuning = capabilities.tuning;
  const uint64_t bytes = plan->counts.least * plan->element_size;
  uint64_t least_tried = tuning.tried_socket_bytes;
  if (capabilities.all_share_memory) {
    const bool run_ahead = capabilities.crowded() && ends_unheard(key.collective, false, false);
    least_tried = run_ahead                            ? tuning.tried_crowded_bytes
                  : plan->choice.path == Path::one_hop ? tuning.tried_one_hop_bytes
                                                       : tuning.tried_bytes;
  }
  if (key.unfused || key.lengths != 0 || plan->kernels.user != nullptr || bytes < least_tried)
    return;
  const std::vector<Route> routes = same_bits(plan->choice, capabilities, query, key.algorithm);
  // Where ranks do not tell each other of the trial by its schedule, what goes so comes last.
  const auto comes_last = [&](const Route& route) {
    return route.path == Path::schedule && plan->choice.fused() && tells_in_flag_lines(key);
  };
  for (const Route& route : routes) {
    if (comes_last(route)) continue;
    plan->ways.push_back({route, {}, nullptr});
    if (is_in_ring(route.path)) plan->ways.push_back({route, {.narrow = true}});
  }
  add_manners(routes, plan);
  for (const Route& route : routes) {
    if (comes_last(route)) plan->ways.push_back({route, {}, nullptr});
  }
  if (plan->ways.size() > Trial::most_ways) plan->ways.resize(Trial::most_ways);
}

// Other ways to go the fused routes.
void CallPlanner::add_manners(const std::vector<Route>& routes, CallPlan* plan) const {
  const Tuning& tuning = connection_.capabilities.tuning;
  const uint64_t bytes = plan->counts.least * plan->element_size;
  const auto fused = std::find_if(routes.begin(), routes.end(),
                                  [](const Route& route) { return route.path != Path::schedule; });
  if (fused == routes.end()) return;
  // Of the allreduces, whose copying is the same, one.
  if (bytes >= tuning.single_copy_bytes) plan->ways.push_back({*fused, {.single_copy = true}});
  // Whether this call's vectors can be got at nobody knows here.
  if (fused->path == Path::one_shot_or_direct) plan->ways.push_back({*fused, {.staged = true}});
  if (plan->key.collective == Collective::allreduce) add_own_first(routes, plan);
  const bool whole = may_be_whole(*fused, *plan);
  if (whole) plan->ways.push_back({*fused, {.whole = true}});
  add_ways_of_one_hop(*fused, plan);
  for (const Route& route : routes) {
    if (route.path != Path::two_level && route.path != Path::schedule)
      plan->ways.push_back({route, {.stores = shared::SliceStores::non_temporal, .whole = whole}});
  }
  add_direct_one_shot(routes, plan);
}

// Of vectors that all ranks get at every route goes direct; of others two-shot alone has results to
// copy.
void CallPlanner::add_own_first(const std::vector<Route>& routes, CallPlan* plan) const {
  const Route* to = nullptr;
  for (const Route& route : routes) {
    const bool may_go_direct = route.path == Path::one_shot_or_direct ||
                               route.path == Path::sliced_one_shot || route.path == Path::two_shot;
    if (may_go_direct && (to == nullptr || route.path == Path::two_shot)) to = &route;
  }
  if (to != nullptr) plan->ways.push_back({*to, {.own_first = true}});
}

// Where one-shot is not much slower than the choice; of vectors that are staged it is the route.
void CallPlanner::add_direct_one_shot(const std::vector<Route>& routes, CallPlan* plan) const {
  const size_t most = plan->counts.most * plan->element_size;
  if (most <= connection_.capabilities.tuning.staged_bytes) return;
  for (const Route& route : routes) {
    if (route.path == Path::one_shot_or_direct || route.path == Path::sliced_one_shot)
      return plan->ways.push_back({route, {.one_shot = true}});
  }
}

// Whether short parts of its calls need not be cut into slices; alike on all ranks. Not tried of
// calls that a rank may end without having heard from all.
bool CallPlanner::may_be_whole(const Route& route, const CallPlan& plan) const {
  const Tuning& tuning = connection_.capabilities.tuning;
  return route.path == Path::one_hop && !ends_unheard(plan.key.collective, false, false) &&
         plan.counts.most * plan.element_size > tuning.least_one_hop_slice_bytes &&
         plan.counts.least * plan.element_size < 4 * tuning.one_hop_slice_bytes;
}

void CallPlanner::add_ways_of_one_hop(const Route& route, CallPlan* plan) const {
  if (route.path != Path::one_hop) return;
  const Collective collective = plan->key.collective;
  const Tuning& tuning = connection_.capabilities.tuning;
  const uint64_t least = plan->counts.least * plan->element_size,
                 most = plan->counts.most * plan->element_size;
  const bool many_blocks = output_has_blocks(collective);
  const uint64_t result = most * (many_blocks ? uint64_t(connection_.nranks) : 1);
  // Where all write and read, these took longer than when they were tried.
  if (ends_unheard(collective, false, false))
    plan->ways.push_back({route, {.stores = shared::SliceStores::plain, .narrow = true}});
  if (result <= tuning.ring_bytes) return;
  plan->ways.push_back({route, {.past = true}});
  if (many_blocks && least >= tuning.single_copy_bytes)
    plan->ways.push_back({route, {.single_copy = true, .past = true}});
}

void CallPlanner::add_trial(CallPlan* plan) {
  if (plan->ways.size() > 1) {
    const bool is_long =
        plan->counts.least * plan->element_size >= connection_.capabilities.tuning.ring_bytes;
    plan->trial = trials_.of(with_level(plan->key), plan->counts, uint32_t(plan->ways.size()),
                             is_long, &plan->trial_tag);
  } else {
    plan->ways.clear();
  }
}

// What its ways need besides what their protocols have.
void CallPlanner::provide(const Query& query, CallPlan* plan) {
  bool in_ring = is_in_ring(plan->choice.path);
  for (Way& way : plan->ways) {
    if (way.route.path == Path::schedule) {
      plan->reserves = true;
      plan->telling = uint32_t(&way - plan->ways.data());
      way.plan = plan_for(protocols_.schedules(), *way.route.algorithm, plan->key.root, query);
    }
    in_ring = in_ring || is_in_ring(way.route.path);
    if (way.manner.single_copy && plan->key.collective == Collective::allreduce)
      protocols_.shared()->reserve_for_copies();
  }
  if (in_ring) plan->one_hop.emplace(shape_for(connection_, *plan));
  if (plan->trial != nullptr && !tells_in_flag_lines(plan->key)) {
    plan->verdicts = plan->reserves ? plan_for_verdicts() : nullptr;
    if (plan->verdicts == nullptr) plan->trial = nullptr;
  }
}

// Whether ranks tell what they have measured in flag lines: where all have some and hear from all.
bool CallPlanner::tells_in_flag_lines(const CallKey& key) const {
  return connection_.capabilities.all_share_memory && !ends_unheard(key.collective, false, false);
}

CachedPlan* CallPlanner::plan_for_verdicts() {
  const auto nranks = uint32_t(connection_.nranks);
  const Query query{
      .nranks = nranks, .count = nranks, .class_count = nranks, .element_size = sizeof(Verdict)};
  Choice choice;
  const Status chosen =
      choose(Collective::allgather, connection_.capabilities, query, {}, true, &choice);
  return chosen.ok() ? plan_for(protocols_.schedules(), *choice.algorithm, 0, query) : nullptr;
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
                                            const CallSettings& settings, Explained* out) {
  CallPlan plan;
  plan.key = {.count = count,
              .dtype = dtype,
              .op = op,
              .unfused = settings.unfused,
              .level = settings.level};
  const Query query = query_of(plan.key);
  Status chosen = bind_operator(plan, query.level);
  if (chosen.ok()) {
    chosen = choose(plan.key.collective, connection_.capabilities, query, settings.algorithm,
                    settings.unfused, &plan.choice);
  }
  if (!chosen.ok()) return failures_.fail(std::move(chosen));
  if (!settings.algorithm.empty()) plan.key.algorithm = plan.choice.algorithm->name;
  plan.element_size = query.element_size;
  plan.counts = decided_alike(count, query.element_size, connection_.capabilities);
  out->choice = plan.choice;
  if (protocols_.alone()) return TUTTI_OK;
  find_ways(query, &plan);
  if (plan.ways.size() < 2) return TUTTI_OK;
  const auto ways = uint32_t(plan.ways.size());
  const Trial untried(ways), *trial = trials_.find(with_level(plan.key), plan.counts, ways);
  explain_trial(plan.ways, trial != nullptr ? *trial : untried, out);
  return TUTTI_OK;
}

}  // namespace tutti
