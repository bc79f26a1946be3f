// Parameter servers: ranks after the workers'. Each holds a part of the parameters and makes its
// updates.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/sync/ways.h"

namespace tutti::train {

// The way to agree whose servers follow this rule.
SyncWay server_way(const char* name, ServerRule (*rule)(const Options& options));

// Runs a server until the end of the run. `all`: the workers and the servers; `servers`: this one
// and the others. `arguments` go into the log, so that it can be replayed.
void serve(const CheckpointGroup& all, const communicator& servers, Replica& replica,
           const std::vector<std::string>& arguments);

}  // namespace tutti::train
