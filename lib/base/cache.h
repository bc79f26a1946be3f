// What this host's processors keep close.
#pragma once

#include <sched.h>

#include <cstddef>

namespace tutti {

constexpr size_t line_bytes = 64;  // of a cache line

// Bytes of the last-level cache that the first core is served by; 32 MiB where the system does not
// say. The first call reads files, so it is made when a communicator is.
size_t last_level_cache_bytes();

// The first core of the last-level cache that serves all of `cores`; -1 if there is none that does,
// or the system does not say.
int last_level_cache_of(const cpu_set_t& cores);

}  // namespace tutti
