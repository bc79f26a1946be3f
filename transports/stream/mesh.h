// Bringing up the connections of a communicator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/acceptor.h"
#include "lib/control/kept_key.h"
#include "lib/control/secure_socket.h"
#include "transports/transport.h"

namespace tutti::tcp {

// On what terms this rank and each other one connect, when the communicator is made and later: both
// ends have found them by themselves, and each proves it to the other (lib/control/handshake.h).
struct Terms {
  KeptKey key;
  uint64_t comm_id = 0;
  int self = 0;
  uint32_t nranks = 0;
  Address own;  // where this rank listens
  // By rank. A binding is empty where there is no peer.
  std::vector<std::optional<Mac>> bindings;
  std::vector<Integrity> integrity;

  // What this rank, the higher one, needs to call `server`.
  Destination destination(int server, const Address& at, Purpose purpose) const;
  // AUTH: the guest is a member that has heard of other terms. *peer: whether it is one that calls
  // this rank.
  Status examine(const Claim& claim, bool* is_peer) const;
  SecureSocket secure(Fd socket, int peer, const Handshake& handshake) const;
};

// Collective over setup.exchange. *control: by rank, the control connections; empty where
// setup.peers says so. Every rank connects to the ranks below it and accepts those above; then the
// listening socket is closed. The sockets carry records where setup.integrity says so. *terms: on
// which pairs may connect again.
Status connect_mesh(const LinkSetup& setup, std::vector<SecureSocket>* control, Terms* terms);

// Equal for two processes that share a loopback interface; empty where that is not known.
std::string network_of_this_process();
inline bool share_network(const std::string& one, const std::string& other) {
  return !one.empty() && one == other;
}

}  // namespace tutti::tcp
