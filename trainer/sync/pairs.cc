#include "trainer/sync/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "trainer/common/error.h"

namespace tutti::train {

// All ranks walk the pairs in the same order; each takes part in its own.
std::vector<Pair> make_pairs(const communicator& world, const std::vector<int>& clients,
                             const std::vector<int>& hosts) {
  std::vector<Pair> pairs;
  const int self = world.rank();
  for (const int client : clients)
    for (const int host : hosts)
      if (self == client || self == host)
        pairs.push_back({world.create_group(std::array{client, host}), client, host});
  return pairs;
}

void fail_between(const Pair& pair, const error& failed) {
  const bool known = failed.rank() == 0 || failed.rank() == 1;
  const std::string who =
      known ? fmt::format("rank {}, ", failed.rank() == 0 ? pair.client : pair.host) : "";
  throw Failure(fmt::format("{}in the exchange of ranks {} and {}, 0 and 1 there: {}", who,
                            pair.client, pair.host, failed.what()));
}

}  // namespace tutti::train
