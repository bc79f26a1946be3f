// Channels: a communicator for each pair of a client and a host, so that a host can receive from
// every client on a thread of its own, and a pair waits for no third rank.
#pragma once

#include <fmt/format.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "trainer/common/call.h"
#include "trainer/common/error.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

struct Channel {
  communicator comm;         // the client is rank 0 of it, the host rank 1
  int client = 0, host = 0;  // their ranks in `world`
};

// Collective over `world`, whose ranks are hosts or clients. A client gets a channel for each host,
// a host one for each client. All ranks make the channels in the same order; each takes part in its
// own.
inline std::vector<Channel> make_channels(const communicator& world,
                                          const std::function<bool(int rank)>& is_host) {
  std::vector<Channel> channels;
  const int self = world.rank();
  for (int client = 0; client < world.size(); ++client)
    for (int host = 0; host < world.size(); ++host)
      if (!is_host(client) && is_host(host) && (self == client || self == host))
        channels.push_back({world.create_group(std::array{client, host}), client, host});
  return channels;
}

// Throws a Failure, a Lost where a rank is dead, that says what `failed` does, by the ranks of
// `world`.
[[noreturn]] inline void fail_between(const Channel& channel, const error& failed) {
  const bool known = failed.rank() == 0 || failed.rank() == 1;
  const std::string who =
      known ? fmt::format("rank {}, ", failed.rank() == 0 ? channel.client : channel.host) : "";
  const std::string text = fmt::format("{}in the exchange of ranks {} and {}, 0 and 1 there: {}",
                                       who, channel.client, channel.host, failed.what());
  if (is_loss(failed)) throw Lost(text);
  throw Failure(text);
}

// Calls body(); an error of the channel's communicator becomes a Failure that names the ranks of
// `world`.
template <class Body>
auto between(const Channel& channel, Body&& body) {
  try {
    return body();
  } catch (const error& failed) {
    fail_between(channel, failed);
  }
}

}  // namespace tutti::train
