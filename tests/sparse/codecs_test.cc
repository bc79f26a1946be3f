// The built-in codecs give the same bits on every instruction set, those of codecs_oracle.h.
#include "lib/sparse/codecs.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "lib/reduce/reduce.h"
#include "tests/sparse/codecs_oracle.h"

namespace {

using namespace tutti;
using sparse::BuiltinCodec;
using sparse::CodecKernels;
namespace oracle = tutti::testing::oracle;

constexpr uint64_t all_floats = uint64_t{1} << 32;
constexpr CodecKernels right_bf16{oracle::encode_bf16, oracle::decode_bf16};
constexpr CodecKernels right_fp8{oracle::encode_fp8, oracle::decode_fp8};

size_t bytes_of(BuiltinCodec codec, size_t count) {
  return codec == BuiltinCodec::bf16 ? count * 2 : count + (count + 31) / 32;
}

// Holds the kernels of one instruction set against the oracle, which runs once for all of them.
class Codecs : public ::testing::TestWithParam<BuiltinCodec> {
 protected:
  const CodecKernels& right() const {
    return GetParam() == BuiltinCodec::bf16 ? right_bf16 : right_fp8;
  }

  // Pointers are that many bytes beyond an aligned address. What lies around stays.
  void encode_alike(const std::vector<float>& values, size_t offset = 0) {
    const size_t count = values.size(), bytes = bytes_of(GetParam(), count);
    expected_.resize(bytes);
    right().encode(values.data(), count, expected_.data());
    input_.resize(count * sizeof(float) + offset);
    if (count != 0) std::memcpy(input_.data() + offset, values.data(), count * sizeof(float));
    for (const char* target : reduce_target_names()) {
      found_.assign(bytes + offset + 1, guard);
      sparse::codec_kernels(GetParam(), target)
          .encode(reinterpret_cast<const float*>(input_.data() + offset), count,
                  found_.data() + offset);
      compare(offset, bytes, target);
    }
  }

  void decode_alike(const std::vector<uint8_t>& encoded, size_t count, size_t offset = 0) {
    const size_t bytes = count * sizeof(float);
    std::vector<float> values(count);
    right().decode(encoded.data(), count, values.data());
    expected_.resize(bytes);
    if (bytes != 0) std::memcpy(expected_.data(), values.data(), bytes);
    input_.assign(offset, 0);
    input_.insert(input_.end(), encoded.begin(), encoded.end());
    for (const char* target : reduce_target_names()) {
      found_.assign(bytes + offset + 1, guard);
      sparse::codec_kernels(GetParam(), target)
          .decode(input_.data() + offset, count, reinterpret_cast<float*>(found_.data() + offset));
      compare(offset, bytes, target);
    }
  }

  // Both ways.
  void alike(const std::vector<float>& values, size_t offset = 0) {
    encode_alike(values, offset);
    decode_alike(std::vector<uint8_t>(expected_), values.size(), offset);
  }

 private:
  void compare(size_t offset, size_t bytes, const char* target) {
    ASSERT_EQ(found_.back(), guard) << target;
    if (offset != 0) {
      ASSERT_EQ(found_[offset - 1], guard) << target;
    }
    if (bytes == 0 || std::memcmp(found_.data() + offset, expected_.data(), bytes) == 0) return;
    size_t i = 0;
    while (found_[offset + i] == expected_[i]) ++i;
    FAIL() << target << ": byte " << i << " of " << bytes << " is " << int(found_[offset + i])
           << ", not " << int(expected_[i]);
  }

  static constexpr uint8_t guard = 0xA5;
  std::vector<uint8_t> input_, expected_, found_;
};

std::vector<float> all_with_upper_half(uint32_t upper) {
  // Where rounding to 16 bits, or to the 4 of e4m3, goes up or down.
  constexpr uint32_t lower_halves[] = {0,      1,      2,      0x3FFF, 0x4000, 0x4001,
                                       0x7FFE, 0x7FFF, 0x8000, 0x8001, 0x8002, 0xBFFF,
                                       0xC000, 0xC001, 0xFFFE, 0xFFFF};
  std::vector<float> values;
  for (const uint32_t lower : lower_halves) {
    values.push_back(std::bit_cast<float>(upper << 16 | lower));
  }
  return values;
}

TEST_P(Codecs, RoundEveryKindOfFloatAsTheOracleDoes) {
  for (uint32_t first = 0; first < 0x10000; first += 0x100) {
    std::vector<float> values;
    for (uint32_t upper = first; upper < first + 0x100; ++upper) {
      const std::vector<float> some = all_with_upper_half(upper);
      values.insert(values.end(), some.begin(), some.end());
    }
    ASSERT_NO_FATAL_FAILURE(alike(values));
  }
}

// Blocks whose scale is given by their first value, with others of all magnitudes below.
TEST_P(Codecs, RoundBelowEveryScale) {
  std::mt19937_64 random(3);
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const uint32_t mantissa : {0u, 1u, 0x5FFFFFu, 0x600000u, 0x600001u, 0x7FFFFFu}) {
      std::vector<float> values;
      for (uint32_t below = 0; below < 32; ++below) {
        values.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
        for (uint32_t i = 1; i < oracle::fp8_block; ++i) {
          // Near a tie of the three bits kept, or anywhere.
          const uint32_t tie = uint32_t(random() % 16) << 19, any = uint32_t(random()) & 0x7FFFFF;
          const uint32_t near = (tie + uint32_t(random() % 3) - 1) & 0x7FFFFF;
          const uint32_t less = exponent > below ? exponent - below : 0;
          values.push_back(std::bit_cast<float>(uint32_t(random() % 2) << 31 | less << 23 |
                                                (random() % 4 == 0 ? any : near)));
        }
      }
      ASSERT_NO_FATAL_FAILURE(alike(values));
    }
  }
}

TEST_P(Codecs, TakeAnyBitsAnyCountAndAnyAddress) {
  std::mt19937_64 random(5);
  for (size_t count = 0; count <= 100; ++count) {
    for (const size_t offset : {0, 1, 2, 3, 4, 8, 16, 31, 32, 63}) {
      std::vector<float> values(count);
      const auto center = uint32_t(random() % 255);
      for (float& value : values) {
        const auto any = uint32_t(random());
        const uint32_t near = (any & 0x807FFFFF) | (center - std::min(center, any % 12)) << 23;
        value = std::bit_cast<float>(random() % 8 == 0 ? uint32_t(random()) : near);
      }
      ASSERT_NO_FATAL_FAILURE(alike(values, offset)) << count << " at " << offset;
    }
  }
}

TEST_P(Codecs, DecodeEveryCodeWithEveryScale) {
  if (GetParam() == BuiltinCodec::bf16) {
    std::vector<uint8_t> encoded(2 * 0x10000);
    for (uint32_t code = 0; code < 0x10000; ++code) {
      encoded[2 * code] = uint8_t(code);
      encoded[2 * code + 1] = uint8_t(code >> 8);
    }
    decode_alike(encoded, 0x10000);
    return;
  }
  constexpr size_t codes = 256, blocks = codes / oracle::fp8_block;
  for (uint32_t scale = 0; scale < 256; ++scale) {
    std::vector<uint8_t> encoded(blocks, uint8_t(scale));
    for (uint32_t code = 0; code < codes; ++code) encoded.push_back(uint8_t(code));
    ASSERT_NO_FATAL_FAILURE(decode_alike(encoded, codes)) << "scale " << scale;
  }
}

// 2^32 of them, each with its neighbours in a block.
TEST_P(Codecs, RoundEveryFloatAsTheOracleDoes) {
  constexpr size_t at_once = 1 << 20;
  std::vector<float> values(at_once);
  for (uint64_t first = 0; first < all_floats; first += at_once) {
    for (size_t i = 0; i < at_once; ++i) values[i] = std::bit_cast<float>(uint32_t(first + i));
    ASSERT_NO_FATAL_FAILURE(encode_alike(values)) << "from " << first;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Codecs, ::testing::Values(BuiltinCodec::bf16, BuiltinCodec::fp8),
                         [](const auto& info) {
                           return std::string(info.param == BuiltinCodec::bf16 ? "bf16" : "fp8");
                         });

TEST(BuiltinCodecs, HaveKernelsForTheInstructionSetsOfTheReductionsAndNoOthers) {
  for (const char* target : reduce_target_names()) {
    EXPECT_NE(sparse::codec_kernels(BuiltinCodec::bf16, target).encode, nullptr) << target;
  }
  EXPECT_EQ(sparse::codec_kernels(BuiltinCodec::fp8, "mmx").decode, nullptr);
}

}  // namespace
