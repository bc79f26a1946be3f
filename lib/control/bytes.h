// Little-endian numbers in a fixed buffer: what frames, handshakes and ids are made of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

template <class Integer>
void put_le(uint8_t* at, Integer value) {
  for (size_t i = 0; i < sizeof(Integer); ++i) at[i] = uint8_t(uint64_t(value) >> (8 * i));
}

template <class Integer>
Integer get_le(const uint8_t* at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Integer); ++i) value |= uint64_t(at[i]) << (8 * i);
  return Integer(value);
}

}  // namespace tutti
