// Structs of the C API that start with their size, so that programs built with another version of
// the header are understood: this library's fields come first in all of them, in their order, and a
// new one is only ever appended, not put where there was padding.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "lib/base/status.h"

namespace tutti::api {

// Far more than any will have; a size beyond it was never set.
constexpr size_t most_sized_bytes = 4096;

// `what`: "the call config".
template <class T>
Status check_size(const T* given, const char* what) {
  static_assert(offsetof(T, size) == 0);
  if (given->size >= sizeof(given->size) && given->size <= most_sized_bytes) return {};
  return {TUTTI_INVALID, std::string("the size of ") + what + " is not set: it is " +
                             std::to_string(given->size) + ", sizeof is " +
                             std::to_string(sizeof(T))};
}

// What the caller has of it, over `out` as it is. What a later version has must be zero, which
// means there what it means not to have it.
template <class T>
Status read_sized(const T* given, const char* what, T* out) {
  if (given->size == sizeof(T)) [[likely]] {
    *out = *given;
    return {};
  }
  TUTTI_TRY(check_size(given, what));
  const size_t size = given->size;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  std::memcpy(static_cast<void*>(out), bytes, std::min(size, sizeof(T)));
  out->size = sizeof(T);
  if (size <= sizeof(T)) return {};
  const auto* const end = bytes + size;
  const auto* const set = std::find_if(bytes + sizeof(T), end, [](unsigned char b) { return b; });
  if (set == end) return {};
  return {TUTTI_INVALID, std::string(what) + " sets what this version of tutti does not know, " +
                             "at byte " + std::to_string(set - bytes)};
}

// Gives the caller as much of `from` as it has room for, and zeros beyond.
template <class T>
void write_sized(const T& from, T* to) {
  const size_t size = to->size, known = std::min(size, sizeof(T));
  auto* const bytes = reinterpret_cast<unsigned char*>(to);
  std::memcpy(bytes, &from, known);
  std::fill(bytes + known, bytes + size, uint8_t{0});
  to->size = size;
}

}  // namespace tutti::api
