// The caches of this host's processors.
#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

namespace tutti {

constexpr size_t line_bytes = 64;  // of a cache line

// Bytes of the first core's last-level cache; 32 MiB where the system does not say. The first call
// reads files, so it is made when a communicator is made.
size_t last_level_cache_bytes();

// Sizes of the first core's caches for data, from the one next to it outwards; empty where the
// system does not say. Reads files.
std::vector<size_t> data_cache_sizes();
// Bytes of the first core's own cache, the one before the last level; a quarter of a megabyte where
// the system does not say.
size_t core_cache_bytes();

// The first core of the last-level cache that all of `cores` share; -1 if they share none, or the
// system does not say.
int last_level_cache_of(const cpu_set_t& cores);

}  // namespace tutti
