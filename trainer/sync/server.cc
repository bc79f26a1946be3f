// A synchronous parameter server: a step takes the gradients of all workers, adds them up in rank
// order of the workers and makes one update.
#include "trainer/sync/list.h"
#include "trainer/sync/server_ranks.h"

namespace tutti::train {

SyncWay ways::server() {
  SyncWay way = server_way(
      "server", [](const Options& o) { return ServerRule{.needed = o.dp, .steps = o.steps}; });
  way.equal_steps = true;
  return way;
}

}  // namespace tutti::train
