// Channels: a communicator for each pair of a client and a host, so that a host can receive from
// every client on a thread of its own, and a pair waits for no third rank.
#pragma once

#include <functional>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

struct Channel {
  communicator comm;         // the client is rank 0 of it, the host rank 1
  int client = 0, host = 0;  // their ranks in `world`
};

// Collective over `world`, whose ranks are hosts or clients. A client gets a channel for each host,
// a host one for each client.
std::vector<Channel> make_channels(const communicator& world,
                                   const std::function<bool(int rank)>& is_host);

// Throws a Failure that says what `failed` does, by the ranks of `world`.
[[noreturn]] void fail_between(const Channel& channel, const error& failed);

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
