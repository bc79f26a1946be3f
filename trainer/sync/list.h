// The list of ways to agree. Adding one is a file that defines its function and a line here; the
// command line, help, plan and checks follow.
#pragma once

#include "trainer/sync/ways.h"

// clang-format off
#define TUTTI_SYNC_WAYS(entry) \
  entry(allreduce) \
  entry(server) \
  entry(server_async) \
  entry(ssp) \
  entry(backup) \
  entry(local_sgd) \
  entry(gossip)
// clang-format on

namespace tutti::train::ways {

#define TUTTI_DECLARE(way) SyncWay way();
TUTTI_SYNC_WAYS(TUTTI_DECLARE)
#undef TUTTI_DECLARE

}  // namespace tutti::train::ways
