// Memory from malloc() that has a mapping of its own.
#pragma once

#include <cstddef>

namespace tutti::shared {

// Whether `address` is what glibc's malloc() has returned for a piece that it mapped by itself and
// that holds [address, address + bytes): free() unmaps it. The piece begins with glibc's own words,
// so its first page is never part of the whole pages behind `address`. If those are replaced by
// another mapping, realloc() finds two, which mremap() does not move together, and copies. False
// for everything else: other pieces stay with the allocator, which may rely on what their pages
// are.
bool is_mapped_chunk(const void* address, size_t bytes);

}  // namespace tutti::shared
