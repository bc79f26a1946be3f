// By which plan a call goes: the one that is ready for calls like it; or a new one, for which an
// algorithm is chosen and, where it runs by its schedule, lowered, and the kernels are found.
#pragma once

#include <memory>

#include "lib/comm/call_cache.h"
#include "lib/comm/connection.h"
#include "lib/comm/failures.h"
#include "lib/comm/protocols.h"

namespace tutti {

class CallPlanner {
 public:
  // All outlive this. `limit`: of the wait that functions of the program's are called in.
  CallPlanner(const Connection& connection, Failures& failures, CallProtocols& protocols,
              Limit* const* limit)
      : connection_(connection), failures_(failures), protocols_(protocols), limit_(limit) {}

  // Null, and the error is kept, if there can be none. Stays as CallCache says.
  const CallCache::Entry* find(const CallKey& key) {
    if (const auto* const found = cache_.find(key)) [[likely]]
      return found;
    return make(key);
  }

  // What all ranks must agree on: fast for calls that do not combine.
  tutti_level level_of(const CallKey& key) const;
  // Whether the call can be made where nobody but the link may touch memory. Any thread.
  bool can_move(const CallKey& key) const;
  tutti_status explain_allreduce(uint64_t count, tutti_dtype dtype, tutti_op op,
                                 const CallSettings& settings, Choice* out);

 private:
  const CallCache::Entry* make(const CallKey& key);
  Status prepare(const CallKey& key, CallCache::Entry* out);
  Query query_of(const CallKey& key) const;
  // Finds the kernels, or the program's function, for the level.
  Status bind_operator(CallPlan& call_plan, tutti_level level) const;

  // Calls met before.
  CallCache cache_;
  const Connection& connection_;
  Failures& failures_;
  CallProtocols& protocols_;
  Limit* const* limit_;
};

}  // namespace tutti
