// The ways to agree through parameter servers. They differ in what a server does with a gradient
// that comes, which server_core.h has as rules.
#include <fmt/format.h>

#include "trainer/common/error.h"
#include "trainer/sync/list.h"
#include "trainer/sync/server_ranks.h"

namespace tutti::train {
namespace {

int64_t backups(const Options& o) { return o.of_way<int64_t>("--backup"); }
int64_t staleness(const Options& o) { return o.of_way<int64_t>("--staleness"); }

// Every gradient is applied when it arrives, and no worker waits for another.
ServerRule asynchronous_rule(const Options& o) {
  return {.rounds = false,
          .needed = o.dp,
          .steps = o.steps,
          .staleness_aware = o.of_way<bool>("--staleness-aware"),
          .compensation = float(o.of_way<double>("--compensation"))};
}

void check_asynchronous(const Options& o) {
  within("--compensation", o.of_way<double>("--compensation"), 0, 1e6);
}

}  // namespace

// A step takes the gradients of all workers, adds them up in rank order of the workers and makes
// one update.
SyncWay ways::server() {
  SyncWay way = server_way(
      "server", [](const Options& o) { return ServerRule{.needed = o.dp, .steps = o.steps}; });
  way.equal_steps = true;
  way.elastic = true;
  return way;
}

// Asynchronous. --staleness-aware (Zhang et al. 2016) and --compensation (DC-ASGD, Zheng et al.
// 2017) make up for stale gradients.
SyncWay ways::server_async() {
  SyncWay way = server_way("server-async", asynchronous_rule);
  way.options = {{"--staleness-aware", "asynchronous: divide the rate by the staleness", false},
                 {"--compensation", "asynchronous: lambda of DC-ASGD; 0: none", 0.0}};
  way.check = check_asynchronous;
  return way;
}

// Stale-synchronous parallel (Ho et al. 2013): asynchronous, but a worker waits when it is more
// than --staleness iterations ahead of the slowest. With 0 every step takes all gradients, as with
// `server`.
SyncWay ways::ssp() {
  SyncWay way = server_async();
  way.name = "ssp";
  way.server = [](const Options& o) {
    ServerRule rule = asynchronous_rule(o);
    rule.bound = staleness(o);
    rule.rounds = rule.bound == 0;
    return rule;
  };
  way.options.insert(
      way.options.begin(),
      {"--staleness", "of ssp: clocks that a worker may be ahead of the slowest", int64_t{1}});
  way.check = [](const Options& o) {
    check_asynchronous(o);
    within("--staleness", double(staleness(o)), 0, 1e9);
  };
  return way;
}

// Backup workers (Chen et al. 2016): a step takes the first gradients, all but --backup of them,
// and drops the others. With several servers, server 0 tells the others which gradients came first.
SyncWay ways::backup() {
  SyncWay way = server_way("backup", [](const Options& o) {
    return ServerRule{.needed = o.dp - int(backups(o)), .steps = o.steps, .agreed_order = true};
  });
  way.options = {
      {"--backup", "of backup: workers whose gradients a step does not wait for", int64_t{1}}};
  way.common_steps = false;
  way.check = [](const Options& o) {
    within("--backup", double(backups(o)), 0, o.dp);
    if (backups(o) >= o.dp)
      throw BadInput(fmt::format("--backup {} leaves none of --dp {} workers", backups(o), o.dp));
  };
  return way;
}

}  // namespace tutti::train
