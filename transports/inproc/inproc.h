// The transport between threads of one process: the rings of shm in plain memory.
#pragma once

#include "transports/transport.h"

namespace tutti {

// Collective over the exchange. All peers are threads of this process.
Status open_inproc(const LinkSetup& setup, std::unique_ptr<Link>* out);

}  // namespace tutti
