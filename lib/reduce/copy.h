// Copies between the memory of ranks and what they share.
#pragma once

#include <cstddef>
#include <cstring>

namespace tutti {

// memcpy() with non-temporal stores. Before another thread may be told, stream_fence().
void stream_copy(void* to, const void* from, size_t bytes);
void stream_fence();
// One or the other.
inline void copy_bytes(void* to, const void* from, size_t bytes, bool non_temporal) {
  non_temporal ? stream_copy(to, from, bytes) : void(std::memcpy(to, from, bytes));
}

// As copy_bytes(), of what another core has written: asks for lines some way ahead, also beyond the
// end of a page, where processors by themselves stop.
void fetch_bytes(void* to, const void* from, size_t bytes, bool non_temporal);

}  // namespace tutti
