// bf16, and fp8 with a scale a block: plain loops, compiled once per instruction set.
#include "lib/sparse/codecs.h"

#include <cstring>

#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/sparse/codecs.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#ifndef TUTTI_LIB_SPARSE_CODECS_ONCE
#define TUTTI_LIB_SPARSE_CODECS_ONCE
namespace tutti::sparse {

constexpr uint32_t magnitude_bits = 0x7FFFFFFF, infinity_bits = 0x7F800000;
constexpr size_t fp8_block = 32;

}  // namespace tutti::sparse
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::sparse::HWY_NAMESPACE {

static HWY_INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
static HWY_INLINE float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
// Without a branch: the compiler does not vectorise floating-point arithmetic that depends on one.
static HWY_INLINE uint32_t choose(bool first, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - uint32_t(first);
  return (a & mask) | (b & ~mask);
}

// Rounds to nearest even: adds just under half of the last place kept, or half where that place is
// odd.
static void encode_bf16(const float* values, size_t count, void* encoded, void*) {
  auto* const to = static_cast<uint8_t*>(encoded);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = bits_of(values[i]);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const auto half = uint16_t((bits & magnitude_bits) > infinity_bits ? 0x7FC0 : rounded);
    memcpy(to + i * sizeof(half), &half, sizeof(half));
  }
}

static void decode_bf16(const void* encoded, size_t count, float* values, void*) {
  const auto* const from = static_cast<const uint8_t*>(encoded);
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    memcpy(&half, from + i * sizeof(half), sizeof(half));
    values[i] = float_of(uint32_t(half) << 16);
  }
}

// The exponent of the least power of two that brings all finite values to 448 or below, with a bias
// of 127: the exponent of the largest less that of 256, and one more beyond 1.75 * 256.
static HWY_INLINE uint32_t scale_of(const float* values) {
  uint32_t largest = 0;
  for (size_t i = 0; i < fp8_block; ++i) {
    const uint32_t magnitude = bits_of(values[i]) & magnitude_bits;
    const uint32_t finite = choose(magnitude < infinity_bits, magnitude, 0);
    largest = largest > finite ? largest : finite;
  }
  const uint32_t exponent = (largest >> 23) + ((largest & 0x7FFFFF) > 0x600000 ? 1 : 0);
  return exponent > 8 ? exponent - 8 : 0;
}

// float8_e4m3 of values up to 448 in magnitude.
static HWY_INLINE void encode_block(const float* HWY_RESTRICT values, uint32_t scale,
                                    uint8_t* HWY_RESTRICT to) {
  const float inverse = float_of((254 - scale) << 23);
  constexpr uint32_t least_normal = 121u << 23;  // 2^-6
  constexpr uint32_t step = (127u + 14) << 23;   // 2^14, whose last place is the least subnormal
  for (size_t i = 0; i < fp8_block; ++i) {
    const uint32_t bits = bits_of(values[i] * inverse);
    const uint32_t magnitude = bits & magnitude_bits;
    const uint32_t normal = (magnitude + 0x7FFFF + ((magnitude >> 20) & 1) - (120u << 23)) >> 20;
    const uint32_t subnormal = bits_of(float_of(magnitude) + float_of(step)) - step;
    const uint32_t code = choose(magnitude < least_normal, subnormal, normal);
    to[i] = uint8_t(choose(magnitude < infinity_bits, code | ((bits >> 24) & 0x80), 0x7F));
  }
}

static HWY_INLINE void decode_block(const uint8_t* HWY_RESTRICT from, uint32_t scale,
                                    float* HWY_RESTRICT values) {
  const float factor = float_of(scale != 0 ? scale << 23 : 0x400000);
  for (size_t i = 0; i < fp8_block; ++i) {
    const uint32_t code = from[i] & 0x7Fu;
    const float subnormal = float(int32_t(code)) * float_of((127u - 9) << 23);
    const uint32_t magnitude = choose(code < 8, bits_of(subnormal), (code << 20) + (120u << 23));
    const uint32_t number = magnitude | uint32_t(from[i] & 0x80u) << 24;
    values[i] = float_of(choose(code == 0x7F, 0x7FC00000, number)) * factor;
  }
}

// The scales of all blocks, then the elements.
static void encode_fp8(const float* values, size_t count, void* encoded, void*) {
  const size_t whole = count / fp8_block, rest = count % fp8_block;
  auto* const scales = static_cast<uint8_t*>(encoded);
  uint8_t* const elements = scales + whole + (rest != 0 ? 1 : 0);
  for (size_t b = 0; b < whole; ++b) {
    const uint32_t scale = scale_of(values + b * fp8_block);
    scales[b] = uint8_t(scale);
    encode_block(values + b * fp8_block, scale, elements + b * fp8_block);
  }
  if (rest == 0) return;
  float last[fp8_block] = {};
  uint8_t codes[fp8_block];
  memcpy(last, values + whole * fp8_block, rest * sizeof(float));
  const uint32_t scale = scale_of(last);
  scales[whole] = uint8_t(scale);
  encode_block(last, scale, codes);
  memcpy(elements + whole * fp8_block, codes, rest);
}

static void decode_fp8(const void* encoded, size_t count, float* values, void*) {
  const size_t whole = count / fp8_block, rest = count % fp8_block;
  const auto* const scales = static_cast<const uint8_t*>(encoded);
  const uint8_t* const elements = scales + whole + (rest != 0 ? 1 : 0);
  for (size_t b = 0; b < whole; ++b) {
    decode_block(elements + b * fp8_block, scales[b], values + b * fp8_block);
  }
  if (rest == 0) return;
  float last[fp8_block];
  uint8_t codes[fp8_block] = {};
  memcpy(codes, elements + whole * fp8_block, rest);
  decode_block(codes, scales[whole], last);
  memcpy(values + whole * fp8_block, last, rest * sizeof(float));
}

}  // namespace tutti::sparse::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <string>

namespace tutti::sparse {

namespace {

HWY_EXPORT(encode_bf16);
HWY_EXPORT(decode_bf16);
HWY_EXPORT(encode_fp8);
HWY_EXPORT(decode_fp8);

constexpr tutti_codec codecs[] = {
    {sizeof(tutti_codec), "bf16", 1, [](size_t count, void*) { return count * 2; },
     [](const float* values, size_t count, void* encoded, void* context) {
       HWY_DYNAMIC_DISPATCH(encode_bf16)(values, count, encoded, context);
     },
     [](const void* encoded, size_t count, float* values, void* context) {
       HWY_DYNAMIC_DISPATCH(decode_bf16)(encoded, count, values, context);
     },
     nullptr},
    {sizeof(tutti_codec), "fp8", fp8_block,
     [](size_t count, void*) { return count + (count + fp8_block - 1) / fp8_block; },
     [](const float* values, size_t count, void* encoded, void* context) {
       HWY_DYNAMIC_DISPATCH(encode_fp8)(values, count, encoded, context);
     },
     [](const void* encoded, size_t count, float* values, void* context) {
       HWY_DYNAMIC_DISPATCH(decode_fp8)(encoded, count, values, context);
     },
     nullptr},
};

}  // namespace

std::span<const tutti_codec> builtin_codecs() { return codecs; }

Status codec_from_name(std::string_view name, const tutti_codec** out) {
  std::string allowed;
  for (const tutti_codec& codec : codecs) {
    if (name == codec.name) {
      *out = &codec;
      return {};
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(codec.name);
  }
  return {TUTTI_INVALID, "unknown codec \"" + std::string(name) + "\"; allowed: " + allowed};
}

}  // namespace tutti::sparse
#endif
