// A communicator for each pair of a client and a host, so that a host can hear every client on a
// thread of its own, and nobody waits for a third.
#pragma once

#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

// Collective over `world`. `clients` and `hosts`: ranks, disjoint. Returns on a client one
// communicator a host, on a host one a client; in each the client is rank 0, the host rank 1.
// Others get none.
std::vector<communicator> make_pairs(const communicator& world, const std::vector<int>& clients,
                                     const std::vector<int>& hosts);

}  // namespace tutti::train
