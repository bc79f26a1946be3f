// What this host's processors keep close.
#pragma once

#include <cstddef>

namespace tutti {

// Bytes of the last-level cache that the first core is served by; 32 MiB where the system does not
// say. The first call reads files, so it is made when a communicator is.
size_t last_level_cache_bytes();

}  // namespace tutti
