// Parameter servers: ranks behind the workers' that hold the parameters, each a part, and make the
// updates.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// A worker's side. `world`: the workers, then the servers.
std::unique_ptr<Strategy> make_server_worker(const Worker& worker, const communicator& world);

// A server's life. `all`: the workers and the servers; `servers`: it and the others. `arguments` go
// into the log, so that it can be replayed.
void serve(const Keepers& all, const communicator& servers, Replica& replica,
           const std::vector<std::string>& arguments);

}  // namespace tutti::train
