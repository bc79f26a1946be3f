// Parameter servers: ranks behind the workers' that hold the parameters, each a part, and make the
// updates.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/sync/ways.h"

namespace tutti::train {

// A way to agree of which this is the rule.
SyncWay server_way(const char* name, ServerRule (*rule)(const Options& options));

// A server's life. `all`: the workers and the servers; `servers`: it and the others. `arguments` go
// into the log, so that it can be replayed.
void serve(const Keepers& all, const communicator& servers, Replica& replica,
           const std::vector<std::string>& arguments);

}  // namespace tutti::train
