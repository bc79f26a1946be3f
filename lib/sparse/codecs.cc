// bf16, and fp8 with a scale a block: compiled once per instruction set, which all give the same
// bits.
#include "lib/reduce/highway.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/sparse/codecs.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "lib/reduce/loop-inl.h"
#include "lib/sparse/codecs.h"

#ifndef TUTTI_LIB_SPARSE_CODECS_ONCE
#define TUTTI_LIB_SPARSE_CODECS_ONCE
namespace tutti::sparse {

constexpr uint32_t magnitude_bits = 0x7FFFFFFF, infinity_bits = 0x7F800000, nan_bits = 0x7FC00000;
constexpr size_t fp8_block = 32;

}  // namespace tutti::sparse
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::sparse::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using reduce::HWY_NAMESPACE::load;
using reduce::HWY_NAMESPACE::store;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
constexpr size_t lanes = hn::MaxLanes(Floats());

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
static HWY_INLINE const uint8_t* bytes_at(const float* values) {
  return reinterpret_cast<const uint8_t*>(values);
}
static HWY_INLINE uint8_t* bytes_at(float* values) { return reinterpret_cast<uint8_t*>(values); }

// Hardware prefetchers stop at the end of a page, and do not fill the first cache from the second:
// encoding bf16 from there is a third faster so, fp8 from memory too.
template <size_t bytes>
HWY_INLINE void fetch_ahead(const uint8_t* from) {
  constexpr size_t ahead = 2 << 10, line = 64;
  for (size_t at = 0; at < bytes; at += line) hwy::Prefetch(from + ahead + at);
}

static HWY_INLINE hn::VFromD<Words> magnitude_of(hn::VFromD<Words> bits) {
  return hn::And(bits, hn::Set(Words(), magnitude_bits));
}
// Whether a > b, both below 2^31: signed comparisons are cheaper, and "less than a constant" would
// take GCC two instructions.
static HWY_INLINE auto above(hn::VFromD<Words> a, uint32_t b) {
  const hn::RebindToSigned<Words> di;
  return hn::RebindMask(Words(), hn::Gt(hn::BitCast(di, a), hn::Set(di, int32_t(b))));
}
template <class Mask>
HWY_INLINE hn::VFromD<Words> choose(Mask first, hn::VFromD<Words> a, hn::VFromD<Words> b) {
#if HWY_TARGET == HWY_SCALAR  // a branch would keep the compiler from vectorising
  const auto bits = hn::VecFromMask(Words(), first);
  return hn::Or(hn::And(bits, a), hn::AndNot(bits, b));
#else
  return hn::IfThenElse(first, a, b);
#endif
}

// ---------------------------------------------------------------- bf16

// The upper halves of the result are the numbers. Rounds to nearest even: adds just under half of
// the last place kept, or half where that place is odd.
static HWY_INLINE hn::VFromD<Words> round_bf16(const uint8_t* from) {
  const Floats d;
  const Words du;
  const auto value = load(d, from);
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd);
  return choose(hn::RebindMask(du, hn::IsNaN(value)), hn::Set(du, nan_bits), rounded);
}

#if HWY_TARGET == HWY_SCALAR
constexpr size_t bf16_step = 1;
static HWY_INLINE void encode_bf16_step(const uint8_t* from, uint8_t* to) {
  const hn::Rebind<uint16_t, Floats> d16;
  store(hn::TruncateTo(d16, hn::ShiftRight<16>(round_bf16(from))), d16, to);
}
#else
// The upper halves of two vectors are one vector after one shuffle.
constexpr size_t bf16_step = 2 * lanes;
static HWY_INLINE void encode_bf16_step(const uint8_t* from, uint8_t* to) {
  const hn::Repartition<uint16_t, Floats> d16;
  const auto lower = hn::BitCast(d16, round_bf16(from));
  const auto upper = hn::BitCast(d16, round_bf16(from + lanes * sizeof(float)));
  store(hn::ConcatOdd(d16, upper, lower), d16, to);
}
#endif

// `step` takes so many elements from one place to another; stores of whole steps are aligned. Steps
// may overlap, because nothing is encoded or decoded in place.
template <size_t elements, size_t from_bytes, size_t to_bytes, class Step>
HWY_INLINE void in_steps(const uint8_t* from, size_t count, uint8_t* to, const Step& step) {
  const auto step_at = [&](size_t i) HWY_ATTR { step(from + i * from_bytes, to + i * to_bytes); };
  if (count == 0) return;  // then there may be no memory
  if (count < elements) {
    uint8_t in[elements * from_bytes] = {}, out[elements * to_bytes];
    memcpy(in, from, count * from_bytes);
    step(in, out);
    memcpy(to, out, count * to_bytes);
    return;
  }
  size_t i = reduce::HWY_NAMESPACE::elements_to_alignment<to_bytes, elements * to_bytes>(to);
  if (i != 0) step_at(0);
  for (; i + elements <= count; i += elements) {
#if HWY_TARGET != HWY_SCALAR  // a step is no line, and the compiler is to vectorise
    fetch_ahead<elements * from_bytes>(from + i * from_bytes);
#endif
    step_at(i);
  }
  if (i < count) step_at(count - elements);
}

static void encode_bf16(const float* values, size_t count, void* encoded) {
  in_steps<bf16_step, sizeof(float), sizeof(uint16_t)>(
      bytes_at(values), count, static_cast<uint8_t*>(encoded),
      [](const uint8_t* from, uint8_t* to) HWY_ATTR { encode_bf16_step(from, to); });
}

static HWY_INLINE void decode_bf16_step(const uint8_t* from, uint8_t* to) {
  const Words du;
  const auto halves = load(hn::Rebind<uint16_t, Floats>(), from);
  store(hn::ShiftLeft<16>(hn::PromoteTo(du, halves)), du, to);
}

static void decode_bf16(const void* encoded, size_t count, float* values) {
  in_steps<lanes, sizeof(uint16_t), sizeof(float)>(
      static_cast<const uint8_t*>(encoded), count, bytes_at(values),
      [](const uint8_t* from, uint8_t* to) HWY_ATTR { decode_bf16_step(from, to); });
}

// ---------------------------------------------------------------- fp8

// All lanes the largest magnitude of a block; with `finite`, infinities and NaN left out.
template <bool finite>
HWY_INLINE hn::VFromD<Words> largest_of(const uint8_t* values) {
  const Words du;
  auto largest = hn::Zero(du);
  for (size_t i = 0; i < fp8_block; i += lanes) {
    auto magnitude = magnitude_of(load(du, values + i * sizeof(float)));
    if constexpr (finite) {
      magnitude = choose(above(magnitude, infinity_bits - 1), hn::Zero(du), magnitude);
    }
    largest = hn::Max(largest, magnitude);
  }
  return hn::MaxOfLanes(du, largest);
}

// The exponent of the least power of two that brings all values to 448 or below, with a bias of
// 127: the exponent of the largest less that of 256, and one more beyond 1.75 * 256.
static HWY_INLINE hn::VFromD<Words> scale_of(hn::VFromD<Words> largest) {
  const Words du;
  const auto exponent = hn::ShiftRight<23>(hn::Add(largest, hn::Set(du, 0x1FFFFFu)));
  return hn::Sub(hn::Max(exponent, hn::Set(du, 8u)), hn::Set(du, 8u));
}

// float8_e4m3 of values up to 448 in magnitude and, unless they are known to be `finite`, of
// infinities and NaN.
//
// Adding 2^(20 + e) to a magnitude whose exponent is e leaves, rounded to nearest even, the three
// bits kept and the implicit one in the sum's lowest bits; e is at least that of the least normal
// number, below which all numbers have its steps. The code is 8 (e + 6) more than these bits. The
// sum's own exponent adds 8 (e + 147), so `less_bias` makes up for the difference, modulo 256.
template <bool finite>
HWY_INLINE void encode_block(const uint8_t* values, hn::VFromD<Words> scale, uint8_t* to) {
  const Floats d;
  const Words du;
  const hn::Rebind<uint8_t, Floats> d8;
  const auto inverse = hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(hn::Set(du, 254u), scale)));
  constexpr uint32_t least_normal = 121u << 23;  // 2^-6
  constexpr uint32_t less_bias = (6 - 147) * 8 & 0xFF;
  const auto raise = hn::Set(du, (20u << 23) + less_bias);
  for (size_t i = 0; i < fp8_block; i += lanes) {
    const auto bits = hn::BitCast(du, hn::Mul(load(d, values + i * sizeof(float)), inverse));
    const auto magnitude = magnitude_of(bits);
    const auto exponent =
        hn::And(hn::Max(magnitude, hn::Set(du, least_normal)), hn::Set(du, infinity_bits));
    const auto raised = hn::BitCast(d, hn::Add(exponent, raise));
    const auto sum = hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), raised));
    const auto code = hn::Add(sum, hn::ShiftRight<20>(sum));
    const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(du, 0x80u));
    auto element = hn::Or(code, sign);
    if constexpr (!finite) {
      element = choose(above(magnitude, infinity_bits - 1), hn::Set(du, 0x7Fu), element);
    }
    store(hn::TruncateTo(d8, element), d8, to + i);
  }
}

static HWY_INLINE uint8_t encode_block(const uint8_t* values, uint8_t* to) {
  auto largest = largest_of<false>(values);
  if (hn::GetLane(largest) < infinity_bits) {
    const auto scale = scale_of(largest);
    encode_block<true>(values, scale, to);
    return uint8_t(hn::GetLane(scale));
  }
  const auto scale = scale_of(largest_of<true>(values));
  encode_block<false>(values, scale, to);
  return uint8_t(hn::GetLane(scale));
}

static HWY_INLINE void decode_block(const uint8_t* from, uint32_t scale, uint8_t* values) {
  const Floats d;
  const Words du;
  const hn::RebindToSigned<Words> di;
  const hn::Rebind<uint8_t, Floats> d8;
  const auto factor = hn::Set(d, float_of(scale != 0 ? scale << 23 : 0x400000));
  const auto least_subnormal = hn::Set(d, float_of((127u - 9) << 23));
  for (size_t i = 0; i < fp8_block; i += lanes) {
    const auto element = hn::PromoteTo(du, load(d8, from + i));
    const auto code = hn::And(element, hn::Set(du, 0x7Fu));
    const auto subnormal = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, code)), least_subnormal);
    const auto normal = hn::Add(hn::ShiftLeft<20>(code), hn::Set(du, 120u << 23));
    const auto magnitude = choose(above(code, 7), normal, hn::BitCast(du, subnormal));
    const auto sign = hn::ShiftLeft<24>(hn::Xor(element, code));
    const auto number = choose(above(code, 0x7E), hn::Set(du, nan_bits), hn::Or(magnitude, sign));
    store(hn::Mul(hn::BitCast(d, number), factor), d, values + i * sizeof(float));
  }
}

// The scales of all blocks, then the elements.
static void encode_fp8(const float* values, size_t count, void* encoded) {
  const size_t whole = count / fp8_block, rest = count % fp8_block;
  const auto* const from = bytes_at(values);
  auto* const scales = static_cast<uint8_t*>(encoded);
  uint8_t* const elements = scales + whole + (rest != 0 ? 1 : 0);
  constexpr size_t block_bytes = fp8_block * sizeof(float);
  for (size_t b = 0; b < whole; ++b) {
    fetch_ahead<block_bytes>(from + b * block_bytes);
    scales[b] = encode_block(from + b * block_bytes, elements + b * fp8_block);
  }
  if (rest == 0) return;
  uint8_t last[block_bytes] = {}, codes[fp8_block];
  memcpy(last, from + whole * block_bytes, rest * sizeof(float));
  scales[whole] = encode_block(last, codes);
  memcpy(elements + whole * fp8_block, codes, rest);
}

static void decode_fp8(const void* encoded, size_t count, float* values) {
  const size_t whole = count / fp8_block, rest = count % fp8_block;
  const auto* const scales = static_cast<const uint8_t*>(encoded);
  const uint8_t* const elements = scales + whole + (rest != 0 ? 1 : 0);
  auto* const to = bytes_at(values);
  constexpr size_t block_bytes = fp8_block * sizeof(float);
  for (size_t b = 0; b < whole; ++b) {
    decode_block(elements + b * fp8_block, scales[b], to + b * block_bytes);
  }
  if (rest == 0) return;
  uint8_t last[block_bytes], codes[fp8_block] = {};
  memcpy(codes, elements + whole * fp8_block, rest);
  decode_block(codes, scales[whole], last);
  memcpy(to + whole * block_bytes, last, rest * sizeof(float));
}

static CodecKernels family_kernels(BuiltinCodec codec) {
  switch (codec) {
    case BuiltinCodec::bf16:
      return {encode_bf16, decode_bf16};
    case BuiltinCodec::fp8:
      return {encode_fp8, decode_fp8};
  }
  return {};
}

}  // namespace tutti::sparse::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <string>

#include "lib/reduce/reduce.h"

namespace tutti::sparse {

namespace {

struct Target {
  int64_t bit;
  const char* name;
  CodecKernels (*kernels)(BuiltinCodec codec);
};
#include "lib/reduce/targets.inc"

template <BuiltinCodec codec>
const CodecKernels& best() {
  static const CodecKernels kernels = codec_kernels(codec, reduce_target_names().front());
  return kernels;
}

// A row of the table; its functions take no context.
template <BuiltinCodec codec>
constexpr tutti_codec row(const char* name, size_t block, size_t (*bytes)(size_t, void*)) {
  return {sizeof(tutti_codec),
          name,
          block,
          bytes,
          [](const float* values, size_t count, void* encoded, void*) {
            best<codec>().encode(values, count, encoded);
          },
          [](const void* encoded, size_t count, float* values, void*) {
            best<codec>().decode(encoded, count, values);
          },
          nullptr};
}

constexpr tutti_codec codecs[] = {
    row<BuiltinCodec::bf16>("bf16", 1, [](size_t count, void*) { return count * 2; }),
    row<BuiltinCodec::fp8>("fp8", fp8_block, [](size_t count, void*) {
      return count + (count + fp8_block - 1) / fp8_block;
    })};

}  // namespace

CodecKernels codec_kernels(BuiltinCodec codec, std::string_view target) {
  for (const Target& compiled : kTargets) {
    if (compiled.name == target) return compiled.kernels(codec);
  }
  return {};
}

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
