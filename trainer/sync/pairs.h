// A communicator for each pair of a client and a host, so that a host can receive from every client
// on a thread of its own, and a pair waits for no third rank.
#pragma once

#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

// Collective over `world`. `clients` and `hosts`: ranks, disjoint. A client gets one communicator
// per host, a host one per client; in each the client is rank 0 and the host rank 1. Other ranks
// get none.
std::vector<communicator> make_pairs(const communicator& world, const std::vector<int>& clients,
                                     const std::vector<int>& hosts);

}  // namespace tutti::train
