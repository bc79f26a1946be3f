// Parameter servers: ranks after the workers'. Each holds a part of the parameters and makes its
// updates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/sync/server_core.h"
#include "trainer/sync/ways.h"

namespace tutti::train {

// The way to agree whose servers follow this rule.
SyncWay server_way(const char* name, ServerRule (*rule)(const Options& options));

class ServerRank {
 public:
  // `arguments` go into the log, so that it can be replayed.
  ServerRank(Replica& replica, const std::vector<std::string>& arguments)
      : replica_(replica), arguments_(arguments) {}
  // Serves until the end of the run. `all`: the workers and the servers; `servers`: this one and
  // the others. With --elastic it is called again with those that are left when it has thrown Lost,
  // or the library's error.
  void serve(const CheckpointGroup& all, const communicator& servers);
  // Made by this server.
  int64_t updates() const { return core_ ? core_->updates() : 0; }
  // Whether it left out the last of them, whose gradient had overflowed.
  bool left_out() const { return core_ && core_->left_out(); }

 private:
  Replica& replica_;
  const std::vector<std::string>& arguments_;
  std::optional<ServerCore> core_;
};

}  // namespace tutti::train
