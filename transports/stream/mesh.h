// Bringing up the connections of a communicator.
#pragma once

#include <vector>

#include "lib/base/status.h"
#include "lib/control/secure_socket.h"
#include "transports/transport.h"

namespace tutti::tcp {

// The sockets of one pair. Control frames have a connection of their own, so that an abort never
// queues behind data (head-of-line blocking).
struct Wires {
  SecureSocket data;
  SecureSocket control;
};

enum class Needs { data_and_control, control };

// Collective over setup.exchange. *out: by rank, empty where setup.peers says so. Every rank
// connects to the ranks below it and accepts those above; then the listening socket is closed. The
// sockets carry records where setup.integrity says so.
Status connect_mesh(const LinkSetup& setup, Needs needs, std::vector<Wires>* out);

// Equal for two processes that share a loopback interface; empty where that is not known.
std::string network_of_this_process();
inline bool share_network(const std::string& one, const std::string& other) {
  return !one.empty() && one == other;
}

}  // namespace tutti::tcp
