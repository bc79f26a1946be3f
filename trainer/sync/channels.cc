#include "trainer/sync/channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "trainer/common/error.h"

namespace tutti::train {

// All ranks make the channels in the same order; each takes part in its own.
std::vector<Channel> make_channels(const communicator& world,
                                   const std::function<bool(int rank)>& is_host) {
  std::vector<Channel> channels;
  const int self = world.rank();
  for (int client = 0; client < world.size(); ++client)
    for (int host = 0; host < world.size(); ++host)
      if (!is_host(client) && is_host(host) && (self == client || self == host))
        channels.push_back({world.create_group(std::array{client, host}), client, host});
  return channels;
}

void fail_between(const Channel& channel, const error& failed) {
  const bool known = failed.rank() == 0 || failed.rank() == 1;
  const std::string who =
      known ? fmt::format("rank {}, ", failed.rank() == 0 ? channel.client : channel.host) : "";
  throw Failure(fmt::format("{}in the exchange of ranks {} and {}, 0 and 1 there: {}", who,
                            channel.client, channel.host, failed.what()));
}

}  // namespace tutti::train
