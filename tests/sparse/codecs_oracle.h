// bf16 and fp8, one element at a time: what all instruction sets must give, bit for bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::testing::oracle {

constexpr uint32_t magnitude_bits = 0x7FFFFFFF, infinity_bits = 0x7F800000;
constexpr size_t fp8_block = 32;

inline uint16_t bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & magnitude_bits) > infinity_bits) return 0x7FC0;
  return uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline void encode_bf16(const float* values, size_t count, void* encoded) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t half = bf16(values[i]);
    std::memcpy(static_cast<char*>(encoded) + i * sizeof(half), &half, sizeof(half));
  }
}

inline void decode_bf16(const void* encoded, size_t count, float* values) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, static_cast<const char*>(encoded) + i * sizeof(half), sizeof(half));
    values[i] = std::bit_cast<float>(uint32_t(half) << 16);
  }
}

// The exponent of the least power of two that brings all finite values to 448 or below, with a bias
// of 127.
inline uint32_t scale_of(const float* values, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & magnitude_bits;
    if (magnitude < infinity_bits) largest = std::max(largest, magnitude);
  }
  const uint32_t exponent = (largest >> 23) + ((largest & 0x7FFFFF) > 0x600000 ? 1 : 0);
  return exponent > 8 ? exponent - 8 : 0;
}

inline uint8_t e4m3(float value, uint32_t scale) {
  constexpr uint32_t least_normal = 121u << 23;  // 2^-6
  constexpr float step = 1 << 14;                // its last place is the least subnormal
  const auto bits = std::bit_cast<uint32_t>(value * std::bit_cast<float>((254 - scale) << 23));
  const uint32_t magnitude = bits & magnitude_bits;
  if (magnitude >= infinity_bits) return 0x7F;
  const uint32_t code = magnitude < least_normal
                            ? std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + step) -
                                  std::bit_cast<uint32_t>(step)
                            : (magnitude + 0x7FFFF + ((magnitude >> 20) & 1) - (120u << 23)) >> 20;
  return uint8_t(code | ((bits >> 24) & 0x80));
}

inline float from_e4m3(uint8_t element, uint32_t scale) {
  const float factor = std::bit_cast<float>(scale != 0 ? scale << 23 : 0x400000);
  const uint32_t code = element & 0x7Fu;
  const float magnitude = code == 0x7F ? std::bit_cast<float>(0x7FC00000)
                          : code < 8   ? float(code) / 512
                                       : std::bit_cast<float>((code << 20) + (120u << 23));
  const uint32_t sign = code == 0x7F ? 0 : uint32_t(element & 0x80u) << 24;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign) * factor;
}

inline void encode_fp8(const float* values, size_t count, void* encoded) {
  auto* const scales = static_cast<uint8_t*>(encoded);
  uint8_t* const elements = scales + (count + fp8_block - 1) / fp8_block;
  for (size_t begin = 0; begin < count; begin += fp8_block) {
    const size_t end = std::min(count, begin + fp8_block);
    const uint32_t scale = scale_of(values + begin, end - begin);
    scales[begin / fp8_block] = uint8_t(scale);
    for (size_t i = begin; i < end; ++i) elements[i] = e4m3(values[i], scale);
  }
}

inline void decode_fp8(const void* encoded, size_t count, float* values) {
  const auto* const scales = static_cast<const uint8_t*>(encoded);
  const uint8_t* const elements = scales + (count + fp8_block - 1) / fp8_block;
  for (size_t i = 0; i < count; ++i) values[i] = from_e4m3(elements[i], scales[i / fp8_block]);
}

}  // namespace tutti::testing::oracle
