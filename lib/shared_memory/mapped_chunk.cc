#include "lib/shared_memory/mapped_chunk.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tutti::shared {

#ifdef __GLIBC__

// Before the memory lie two words: how far behind the beginning of the mapping they begin (not 0
// where an alignment was asked for), and the size from there to the end of the mapping, with flags
// in its low bits.
[[gnu::no_sanitize("address")]] bool is_mapped_chunk(const void* address, size_t bytes) {
  constexpr size_t flags = 7, mapped = 2;
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(address);
  // On the page of the memory itself, or nobody knows whether they can be read.
  if (at % page < 2 * sizeof(size_t) || at % sizeof(size_t) != 0) return false;
  const size_t* const words = static_cast<const size_t*>(address) - 2;
  const size_t before = words[0], size = words[1] & ~flags;
  const uintptr_t begin = at - 2 * sizeof(size_t);
  return (words[1] & flags) == mapped && before % page == begin % page && before < page &&
         (before + size) % page == 0 && size >= 2 * sizeof(size_t) + bytes;
}

#else

bool is_mapped_chunk(const void*, size_t) { return false; }

#endif

}  // namespace tutti::shared
