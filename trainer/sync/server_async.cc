// An asynchronous parameter server: every gradient is applied when it arrives. --staleness-aware
// (Zhang et al. 2016) and --compensation (DC-ASGD, Zheng et al. 2017) make up for stale ones.
#include "trainer/sync/server_async.h"

#include "trainer/common/checks.h"
#include "trainer/sync/list.h"
#include "trainer/sync/server_ranks.h"

namespace tutti::train {

std::vector<WayOption> asynchronous_options() {
  return {{"--staleness-aware", "asynchronous: divide the rate by the staleness", false},
          {"--compensation", "asynchronous: lambda of DC-ASGD; 0: none", 0.0}};
}

void check_asynchronous(const Options& o) {
  within("--compensation", o.of_way<double>("--compensation"), 0, 1e6);
}

ServerRule asynchronous_rule(const Options& o) {
  return {.rounds = false,
          .needed = o.dp,
          .steps = o.steps,
          .staleness_aware = o.of_way<bool>("--staleness-aware"),
          .compensation = float(o.of_way<double>("--compensation"))};
}

SyncWay ways::server_async() {
  SyncWay way = server_way("server-async", asynchronous_rule);
  way.options = asynchronous_options();
  way.check = check_asynchronous;
  return way;
}

}  // namespace tutti::train
