// Structs of the C API that start with their size, so that programs built with another version of
// the header work: in every version the fields are in the same order, and a new field is only ever
// appended, never put into padding.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "lib/base/status.h"

namespace tutti::api {

// Far more than any struct will have; a larger size is an uninitialised one.
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

// Copies the fields that the caller's version has over those of `out`. Fields of a later version
// must be zero, which means the same there as their absence.
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

// Copies as much of `from` as the caller's struct has room for, and zeros what lies beyond.
template <class T>
void write_sized(const T& from, T* to) {
  const size_t size = to->size, known = std::min(size, sizeof(T));
  auto* const bytes = reinterpret_cast<unsigned char*>(to);
  std::memcpy(bytes, &from, known);
  std::fill(bytes + known, bytes + size, uint8_t{0});
  to->size = size;
}

}  // namespace tutti::api
