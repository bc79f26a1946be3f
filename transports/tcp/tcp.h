// The tcp transport: any two processes that reach each other by IP.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti {

Status open_tcp(const LinkSetup& setup, std::unique_ptr<Link>* out);

}  // namespace tutti
