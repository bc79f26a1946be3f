// Copies between the memory of ranks and memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti {

// memcpy() with non-temporal stores: call stream_fence() before a flag is stored for other threads.
void stream_copy(void* to, const void* from, size_t bytes);
void stream_fence();
// stream_copy() or memcpy().
inline void copy_bytes(void* to, const void* from, size_t bytes, bool non_temporal) {
  non_temporal ? stream_copy(to, from, bytes) : void(std::memcpy(to, from, bytes));
}

// memcpy() by ordinary stores of vectors, whatever the length: the C library's takes the string
// instruction from some KiB on, which is slower on some processors where another core has read the
// lines before (lib/shared_memory/notes.md).
void plain_copy(void* to, const void* from, size_t bytes);

// memcpy() of some KiB to lines that another core has read: by the processor's string instruction,
// where it says that this is fast (x86: ERMS). That stores whole lines without fetching them first,
// which plain stores cannot do. A flag stored afterwards is seen after it.
void copy_over(void* to, const void* from, size_t bytes);

// As copy_bytes(), for data that another core has written: so many pages side by side, a line of
// each in turn, since hardware prefetchers follow each page for itself; of what is left it
// prefetches lines so far ahead, also across the end of a page, but not beyond the last byte.
void fetch_bytes(void* to, const void* from, size_t bytes, bool non_temporal, uint32_t pages,
                 size_t ahead_bytes);

}  // namespace tutti
