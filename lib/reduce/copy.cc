#include "lib/reduce/copy.h"

#include <algorithm>
#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti {

namespace {

constexpr size_t line = 64;
constexpr size_t page = 4096;  // within which hardware prefetchers stay

#if defined(__SSE2__)
using Part = __m128i;
inline Part load_part(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
#else
struct Part {
  std::byte bytes[16];
};
inline Part load_part(const std::byte* from) {
  Part out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}
#endif

struct Line {
  Part parts[line / sizeof(Part)];
};

inline Line load(const std::byte* from) {
  Line out;
  for (size_t i = 0; i < line / sizeof(Part); ++i)
    out.parts[i] = load_part(from + i * sizeof(Part));
  return out;
}

// Through the caches.
struct Store {
  static void part(std::byte* to, const Part& from) {
#if defined(__SSE2__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), from);
#else
    std::memcpy(to, &from, sizeof(from));
#endif
  }
};

// Past them. `to` is aligned: four stores of 16 bytes fill a line, and write combining makes them
// one write of the whole line.
struct Stream {
  static void part(std::byte* to, const Part& from) {
#if defined(__SSE2__)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), from);
#else
    Store::part(to, from);
#endif
  }
};

template <class How>
void put(std::byte* to, const Line& from) {
  for (size_t i = 0; i < line / sizeof(Part); ++i) How::part(to + i * sizeof(Part), from.parts[i]);
}

// Copies whole lines that are aligned at `to`, and the rest with memcpy().
template <class StoreLine>
void copy_lines(void* to, const void* from, size_t bytes, StoreLine store_line) {
  auto* const out = static_cast<std::byte*>(to);
  const auto* const in = static_cast<const std::byte*>(from);
  size_t at = (line - reinterpret_cast<uintptr_t>(out) % line) % line;
  if (at + line > bytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(out, in, at);
  for (; at + line <= bytes; at += line) store_line(out + at, load(in + at));
  std::memcpy(out + at, in + at, bytes - at);
}

// Copies the beginning, as many times so many pages as there are. Returns how much that was. Of a
// row of all pages everything is loaded before it is stored: a load behind a store to the same
// offset of another page waits for it (4K aliasing).
template <class How, size_t pages>
size_t copy_pages(std::byte* out, const std::byte* in, size_t bytes) {
  constexpr size_t stretch = pages * page, part = sizeof(Part), parts = 8 / pages;
  size_t at = (line - reinterpret_cast<uintptr_t>(out) % line) % line;
  if (at + stretch > bytes) return 0;
  std::memcpy(out, in, at);
  for (; at + stretch <= bytes; at += stretch) {
    for (size_t row = at; row < at + page; row += parts * part) {
      Part loaded[pages * parts];  // in registers
#pragma GCC unroll 8
      for (size_t i = 0; i < pages * parts; ++i)
        loaded[i] = load_part(in + row + i / parts * page + i % parts * part);
#pragma GCC unroll 8
      for (size_t i = 0; i < pages * parts; ++i)
        How::part(out + row + i / parts * page + i % parts * part, loaded[i]);
    }
  }
  return at;
}

template <class How>
size_t copy_pages(std::byte* out, const std::byte* in, size_t bytes, uint32_t pages) {
  return pages >= 8   ? copy_pages<How, 8>(out, in, bytes)
         : pages >= 4 ? copy_pages<How, 4>(out, in, bytes)
         : pages >= 2 ? copy_pages<How, 2>(out, in, bytes)
                      : 0;
}

// As copy_lines(), pages side by side, then prefetching lines so far ahead, but none beyond the
// end: what lies there may be written right now.
template <class How>
void fetch_lines(void* to, const void* from, size_t bytes, uint32_t pages, size_t ahead_bytes) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  const size_t done = copy_pages<How>(out, in, bytes, pages);
  out += done;
  in += done;
  bytes -= done;
  const size_t ahead = std::min(ahead_bytes, bytes), first = bytes - ahead;
  for (size_t at = 0; at < ahead; at += line) __builtin_prefetch(in + at);
  copy_lines(out, in, first, [=](std::byte* place, const Line& data) {
    __builtin_prefetch(in + (place - out) + ahead);
    put<How>(place, data);
  });
  copy_lines(out + first, in + first, ahead, put<How>);
}

#if defined(__x86_64__)
bool has_fast_string_copy() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx >> 9 & 1) != 0;  // ERMS
}
#endif

}  // namespace

void stream_copy(void* to, const void* from, size_t bytes) {
  copy_lines(to, from, bytes, put<Stream>);
}

void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void plain_copy(void* to, const void* from, size_t bytes) {
  copy_lines(to, from, bytes, put<Store>);
}

void copy_over(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  static const bool by_string = has_fast_string_copy();
  if (by_string) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

void fetch_bytes(void* to, const void* from, size_t bytes, bool non_temporal, uint32_t pages,
                 size_t ahead_bytes) {
  if (non_temporal) {
    fetch_lines<Stream>(to, from, bytes, pages, ahead_bytes);
  } else {
    fetch_lines<Store>(to, from, bytes, pages, ahead_bytes);
  }
}

}  // namespace tutti
