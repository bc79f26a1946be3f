// Finds the CallPlan of a call: the one of earlier calls like it, or a new one. For a new one it
// chooses an algorithm, lowers its schedule if the call runs by it, and finds the kernels.
#pragma once

#include <memory>

#include "lib/comm/call_cache.h"
#include "lib/comm/connection.h"
#include "lib/comm/failures.h"
#include "lib/comm/protocols.h"
#include "lib/comm/trials.h"

namespace tutti {

// What calls would run, and why.
struct Explained {
  Choice choice;  // of the way that is settled for now
  // Where there are several ways, tried or not: that one and the next best, and what they took; 0:
  // not tried.
  std::string way, runner_up_way;
  uint64_t measured_ns = 0, runner_up_measured_ns = 0;
};

class CallPlanner {
 public:
  // All outlive this. `limit`: where the program's operators find the limit of the wait that they
  // are called in.
  CallPlanner(const Connection& connection, Failures& failures, CallProtocols& protocols,
              Limit* const* limit)
      : connection_(connection), failures_(failures), protocols_(protocols), limit_(limit) {}

  // Null, and the error is kept, if none can be made. Valid as CallCache::find() says.
  const CallCache::Entry* find(const CallKey& key) {
    if (const auto* const found = cache_.find(key)) [[likely]]
      return found;
    return make(key);
  }

  // The level, on which all ranks must agree; fast for calls that do not combine.
  tutti_level level_of(const CallKey& key) const;
  // The key, with the level that it stands for.
  CallKey with_level(CallKey key) const;
  // Whether the call can be made if only the link may access its buffers. Any thread.
  bool can_move(const CallKey& key) const;
  tutti_status explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                 const CallSettings& settings, Explained* out);

 private:
  const CallCache::Entry* make(const CallKey& key);
  Status prepare(const CallKey& key, CallCache::Entry* out);
  Query query_of(const CallKey& key) const;
  // Fills plan->ways.
  void find_ways(const Query& query, CallPlan* plan) const;
  void add_manners(const std::vector<Route>& routes, CallPlan* plan) const;
  void add_own_first(const std::vector<Route>& routes, CallPlan* plan) const;
  void add_direct_one_shot(const std::vector<Route>& routes, CallPlan* plan) const;
  bool may_be_whole(const Route& route, const CallPlan& plan) const;
  void add_ways_of_one_hop(const Route& route, CallPlan* plan) const;
  void add_trial(CallPlan* plan);
  void provide(const Query& query, CallPlan* plan);
  bool tells_in_flag_lines(const CallKey& key) const;
  CachedPlan* plan_for_verdicts();
  // Finds the kernels, or the program's function, for the level.
  Status bind_operator(CallPlan& call_plan, tutti_level level) const;

  // Of earlier calls.
  CallCache cache_;
  Trials trials_;
  const Connection& connection_;
  Failures& failures_;
  CallProtocols& protocols_;
  Limit* const* limit_;
};

}  // namespace tutti
