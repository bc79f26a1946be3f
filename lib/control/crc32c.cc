#include "lib/control/crc32c.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tutti {

namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t reflected_polynomial = 0x82f63b78u;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? reflected_polynomial : 0);
    }
    table[byte] = value;
  }
  return table;
}

uint32_t by_table(const uint8_t* data, size_t bytes) {
  static constexpr std::array<uint32_t, 256> table = make_table();
  uint32_t crc = ~uint32_t{0};
  for (size_t i = 0; i < bytes; ++i) crc = (crc >> 8) ^ table[(crc ^ data[i]) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t by_instruction(const uint8_t* data, size_t bytes) {
  uint64_t crc = ~uint32_t{0};
  for (; bytes >= 8; bytes -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  auto narrow = uint32_t(crc);
  for (; bytes > 0; --bytes, ++data) narrow = _mm_crc32_u8(narrow, *data);
  return ~narrow;
}
#endif

}  // namespace

uint32_t crc32c(const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return by_instruction(from, bytes);
#endif
  return by_table(from, bytes);
}

}  // namespace tutti
