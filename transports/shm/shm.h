// The transport between processes of one host: a memfd that the lowest rank makes and passes to the
// others over a Unix socket without a name in the file system.
#pragma once

#include "transports/transport.h"

namespace tutti {

// Collective over the exchange. All peers are processes of this host, in one network and process
// namespace and of one user (host_identity() in lib/comm decides that).
Status open_shm(const LinkSetup& setup, std::unique_ptr<Link>* out);

}  // namespace tutti
