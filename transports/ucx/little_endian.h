// Numbers in messages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::ucx {

inline uint64_t get_le(const uint8_t* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | at[i];
  return value;
}

inline void put_le(uint8_t* at, uint64_t value) {
  for (size_t i = 0; i < 8; ++i) at[i] = uint8_t(value >> (8 * i));
}

}  // namespace tutti::ucx
