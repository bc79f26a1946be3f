#include "trainer/sync/pairs.h"

#include <algorithm>
#include <array>

namespace tutti::train {

// All ranks walk the pairs in the same order; each takes part in its own.
std::vector<communicator> make_pairs(const communicator& world, const std::vector<int>& clients,
                                     const std::vector<int>& hosts) {
  std::vector<communicator> pairs;
  const int self = world.rank();
  for (const int client : clients)
    for (const int host : hosts)
      if (self == client || self == host)
        pairs.push_back(world.create_group(std::array{client, host}));
  return pairs;
}

}  // namespace tutti::train
