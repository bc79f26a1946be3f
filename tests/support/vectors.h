// Values of long vectors: made, and compared, a piece at a time. The thread sanitizer checks what a
// test and the library do to the vector as ranges; what only the test sees, the piece, it does not
// check, because element by element that takes most of a test's time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tutti::testing {

// For a function of memory that one thread alone sees. What it calls must be inlined to be
// unchecked: TUTTI_INLINED, also of a lambda: `[&](size_t i) TUTTI_INLINED { ... }`.
#define TUTTI_UNCHECKED __attribute__((no_sanitize("thread")))
#define TUTTI_INLINED __attribute__((always_inline))

constexpr size_t piece_elements = 1024;

// to[i] = value(begin + i), for i < count.
template <class T, class Value>
TUTTI_UNCHECKED void fill_unchecked(T* to, size_t begin, size_t count, Value value) {
  for (size_t i = 0; i < count; ++i) to[i] = value(begin + i);
}

// to[i] = value(i), for i < count.
template <class T, class Value>
void fill(T* to, size_t count, Value value) {
  T piece[piece_elements];
  for (size_t at = 0; at < count; at += piece_elements) {
    const size_t now = std::min(piece_elements, count - at);
    fill_unchecked(piece, at, now, value);
    std::memcpy(to + at, piece, now * sizeof(T));
  }
}

// The least i < count for which got[i] has other bits than value(i); count if there is none.
template <class T, class Value>
size_t first_difference(const T* got, size_t count, Value value) {
  T piece[piece_elements];
  for (size_t at = 0; at < count; at += piece_elements) {
    const size_t now = std::min(piece_elements, count - at);
    fill_unchecked(piece, at, now, value);
    if (std::memcmp(got + at, piece, now * sizeof(T)) == 0) continue;
    for (size_t i = 0; i < now; ++i)
      if (std::memcmp(got + at + i, piece + i, sizeof(T)) != 0) return at + i;
  }
  return count;
}

}  // namespace tutti::testing
