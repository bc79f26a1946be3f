// Bringing up the connections of a communicator.
#pragma once

#include <vector>

#include "lib/base/fd.h"
#include "lib/base/status.h"
#include "transports/transport.h"

namespace tutti::tcp {

// Of one pair. Data and what is said about it go apart, so that bulk never holds up an alarm.
struct Wires {
  Fd data;
  Fd control;
};

enum class Needs { data_and_control, control };

// Collective over setup.exchange. *out: by rank, empty where setup.peers says so. Every rank calls
// those below it and is called by those above; when all are there nothing listens any more.
Status connect_mesh(const LinkSetup& setup, Needs needs, std::vector<Wires>* out);

// Equal for two processes whose loopback interfaces are one; empty where that is not known.
std::string network_of_this_process();

}  // namespace tutti::tcp
