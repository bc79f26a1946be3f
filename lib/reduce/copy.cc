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

struct Line {
#if defined(__SSE2__)
  static constexpr size_t part = sizeof(__m128i);
  __m128i parts[line / part];
#else
  std::byte bytes[line];
#endif
};

inline Line load(const std::byte* from) {
  Line out;
#if defined(__SSE2__)
  for (size_t i = 0; i < line / Line::part; ++i) {
    out.parts[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * Line::part));
  }
#else
  std::memcpy(&out, from, line);
#endif
  return out;
}

inline void store(std::byte* to, const Line& from) {
#if defined(__SSE2__)
  for (size_t i = 0; i < line / Line::part; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * Line::part), from.parts[i]);
  }
#else
  std::memcpy(to, &from, line);
#endif
}

// `to` is aligned to a line: four stores of 16 bytes fill it, and write combining makes them one
// write of the whole line.
inline void stream(std::byte* to, const Line& from) {
#if defined(__SSE2__)
  for (size_t i = 0; i < line / Line::part; ++i) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i * Line::part), from.parts[i]);
  }
#else
  store(to, from);
#endif
}

// Copies whole lines that are aligned at `to`, and the rest with memcpy().
template <class Store>
void copy_lines(void* to, const void* from, size_t bytes, Store store_line) {
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

// The same, prefetching lines so far ahead, but none beyond the end: what lies there may be written
// right now.
template <class Store>
void fetch_lines(void* to, const void* from, size_t bytes, size_t ahead_bytes, Store store_line) {
  auto* const out = static_cast<std::byte*>(to);
  const auto* const in = static_cast<const std::byte*>(from);
  const size_t ahead = std::min(ahead_bytes, bytes), first = bytes - ahead;
  for (size_t at = 0; at < ahead; at += line) __builtin_prefetch(in + at);
  copy_lines(out, in, first, [=](std::byte* place, const Line& data) {
    __builtin_prefetch(in + (place - out) + ahead);
    store_line(place, data);
  });
  copy_lines(out + first, in + first, ahead, store_line);
}

#if defined(__x86_64__)
bool has_fast_string_copy() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx >> 9 & 1) != 0;  // ERMS
}
#endif

}  // namespace

void stream_copy(void* to, const void* from, size_t bytes) { copy_lines(to, from, bytes, stream); }

void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void plain_copy(void* to, const void* from, size_t bytes) { copy_lines(to, from, bytes, store); }

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

void fetch_bytes(void* to, const void* from, size_t bytes, bool non_temporal, size_t ahead_bytes) {
  if (non_temporal) {
    fetch_lines(to, from, bytes, ahead_bytes, stream);
  } else {
    fetch_lines(to, from, bytes, ahead_bytes, store);
  }
}

}  // namespace tutti
