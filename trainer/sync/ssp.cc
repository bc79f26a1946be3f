// Stale-synchronous parallel (Ho et al. 2013): asynchronous, but a worker waits when it is more
// than --staleness iterations ahead of the slowest. With 0 every step takes all gradients, as with
// `server`.
#include "trainer/common/checks.h"
#include "trainer/sync/list.h"
#include "trainer/sync/server_async.h"
#include "trainer/sync/server_ranks.h"

namespace tutti::train {

SyncWay ways::ssp() {
  SyncWay way = server_way("ssp", [](const Options& o) {
    ServerRule rule = asynchronous_rule(o);
    rule.bound = o.of_way<int64_t>("--staleness");
    rule.rounds = rule.bound == 0;
    return rule;
  });
  way.options = asynchronous_options();
  way.options.insert(
      way.options.begin(),
      {"--staleness", "of ssp: clocks that a worker may be ahead of the slowest", int64_t{1}});
  way.check = [](const Options& o) {
    check_asynchronous(o);
    within("--staleness", double(o.of_way<int64_t>("--staleness")), 0, 1e9);
  };
  return way;
}

}  // namespace tutti::train
