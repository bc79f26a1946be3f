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
// The instruction takes three cycles, and can be started in each: so three lanes are as fast as
// one.
constexpr size_t lane_bytes = 1024;

// What becomes of a remainder when a lane of zeros follows. That is linear, so a table for each of
// its bytes will do.
constexpr auto make_shifts() {
  constexpr std::array<uint32_t, 256> table = make_table();
  std::array<std::array<uint32_t, 256>, 4> shifts{};
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t value = uint32_t{1} << bit;
    for (size_t i = 0; i < lane_bytes; ++i) value = (value >> 8) ^ table[value & 0xff];
    for (size_t byte = 0; byte < 256; ++byte) {
      if ((byte >> bit % 8 & 1) != 0) shifts[bit / 8][byte] ^= value;
    }
  }
  return shifts;
}

uint64_t shifted(uint64_t crc) {
  static constexpr auto shifts = make_shifts();
  return shifts[0][crc & 0xff] ^ shifts[1][crc >> 8 & 0xff] ^ shifts[2][crc >> 16 & 0xff] ^
         shifts[3][crc >> 24 & 0xff];
}

uint64_t word_at(const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t by_instruction(const uint8_t* data, size_t bytes) {
  uint64_t crc = ~uint32_t{0};
  for (; bytes >= 3 * lane_bytes; bytes -= 3 * lane_bytes, data += 3 * lane_bytes) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < lane_bytes; i += 8) {
      crc = _mm_crc32_u64(crc, word_at(data + i));
      second = _mm_crc32_u64(second, word_at(data + lane_bytes + i));
      third = _mm_crc32_u64(third, word_at(data + 2 * lane_bytes + i));
    }
    crc = shifted(shifted(crc) ^ second) ^ third;
  }
  for (; bytes >= 8; bytes -= 8, data += 8) crc = _mm_crc32_u64(crc, word_at(data));
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
