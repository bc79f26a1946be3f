// Every kernel of every instruction set that this processor has, against the reference, bit for
// bit.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "lib/base/types.h"
#include "lib/reduce/copy.h"
#include "lib/reduce/reduce.h"
#include "tests/reduce/reference.h"
#include "tests/support/sanitized.h"

namespace tutti {
namespace {

using reference::Bits;
using reference::hex;

constexpr size_t kMostOperands = 9;
constexpr uint8_t kGuard = 0xA5;
constexpr size_t kMargin = 80;  // more than a vector on either side

enum class Values { small, any_bits, edges };

// Vectors of one type at arbitrary byte offsets, with their bit patterns beside them.
class Operands {
 public:
  Operands(tutti_dtype dtype, size_t n, size_t elements, Values values, std::mt19937_64& random)
      : size_(dtype_size(dtype)), elements_(elements) {
    const std::vector<Bits> edges = reference::edge_values(dtype);
    for (size_t k = 0; k < n; ++k) {
      // Half of the vectors are aligned to their elements, the others to nothing.
      const size_t unit = random() % 2 == 0 ? size_ : 1;
      offsets_.push_back(kMargin + random() % (64 / unit) * unit);
      bytes_.emplace_back(offsets_[k] + elements * size_ + kMargin, kGuard);
      bits_.emplace_back(elements);
      for (size_t i = 0; i < elements; ++i) {
        Bits value = Bits{random()} << 64 | random();
        if (values == Values::edges) value = edges[size_t(value % edges.size())];
        if (values == Values::small) value = small(dtype, value);
        value &= ~Bits{0} >> (128 - 8 * size_);
        bits_[k][i] = value;
        std::memcpy(at(k) + i * size_, &value, size_);
      }
    }
  }

  uint8_t* at(size_t k) { return bytes_[k].data() + offsets_[k]; }
  Bits bits(size_t k, size_t i) const { return bits_[k][i]; }
  Bits stored(size_t k, size_t i) {
    Bits value = 0;
    std::memcpy(&value, at(k) + i * size_, size_);
    return value;
  }
  // Whether nothing was written outside vector k.
  bool guarded(size_t k) const {
    for (size_t i = 0; i < bytes_[k].size(); ++i) {
      const bool inside = i >= offsets_[k] && i < offsets_[k] + elements_ * size_;
      if (!inside && bytes_[k][i] != kGuard) return false;
    }
    return true;
  }

 private:
  // Numbers whose sums and products stay finite.
  static Bits small(tutti_dtype dtype, Bits both) {
    const auto random = static_cast<uint64_t>(both);
    const auto other = static_cast<uint64_t>(both >> 64);
    const float value = static_cast<float>(static_cast<int>(random % 4096) - 2048) / 512.0f;
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    switch (dtype) {
      case TUTTI_FLOAT32:
        return bits + (random >> 40) % 64;
      case TUTTI_BFLOAT16:
        return bits >> 16;
      case TUTTI_FLOAT16:
        return (random & 0x8000) | (0x3400 + (random >> 20) % 0x1000);
      case TUTTI_FLOAT64: {
        const double wide = value + static_cast<double>(random >> 40) * 0x1p-60;
        Bits result = 0;
        std::memcpy(&result, &wide, 8);
        return result;
      }
      case TUTTI_FLOAT8_E4M3:
        return (random & 0x80) | (0x30 + (random >> 20) % 0x10);
      case TUTTI_FLOAT8_E5M2:
        return (random & 0x80) | (0x38 + (random >> 20) % 0x08);
      case TUTTI_COMPLEX64:
        return small(TUTTI_FLOAT32, other) << 32 | small(TUTTI_FLOAT32, random);
      case TUTTI_COMPLEX128:
        return small(TUTTI_FLOAT64, other) << 64 | small(TUTTI_FLOAT64, random);
      case TUTTI_FLOAT32_INT32:
      case TUTTI_INT32_INT32:  // equal values often
        return (other % 5) << 32 | (random % 3 << 30);
      case TUTTI_FLOAT64_INT64:
      case TUTTI_INT64_INT64:
        return Bits{other % 5} << 64 | (random % 3 << 62);
      default:
        return random % 7;  // zero often enough for the logical operators
    }
  }

  size_t size_;
  size_t elements_;
  std::vector<size_t> offsets_;
  std::vector<std::vector<uint8_t>> bytes_;
  std::vector<std::vector<Bits>> bits_;
};

std::vector<size_t> sizes() {
  std::vector<size_t> result;
  for (size_t i = 0; i <= 300; ++i) result.push_back(i);
  for (size_t i : {511, 512, 513, 1000, 1024, 2049, 4099}) result.push_back(i);
  return result;
}

struct Case {
  tutti_dtype dtype;
  tutti_op op;
  const char* target;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.target << " " << dtype_name(c.dtype) << " " << op_name(c.op);
}

class EveryKernel : public ::testing::TestWithParam<Case> {
 protected:
  // Folds n vectors into vector `out_at`; n means a vector of its own.
  void check(size_t n, size_t elements, size_t out_at, Values values, bool pair) {
    const auto [dtype, op, target] = GetParam();
    const Kernels kernels = find_kernels(dtype, op, target);
    Operands operands(dtype, n + 1, elements, values, random_);
    std::vector<const void*> pointers;
    for (size_t k = 0; k < n; ++k) pointers.push_back(operands.at(k));
    if (pair) {
      kernels.reduce2(operands.at(out_at), pointers[0], pointers[1], elements);
    } else {
      kernels.reduce(operands.at(out_at), pointers.data(), n, elements);
    }
    std::vector<Bits> inputs(n);
    for (size_t i = 0; i < elements; ++i) {
      for (size_t k = 0; k < n; ++k) inputs[k] = operands.bits(k, i);
      ASSERT_EQ(operands.stored(out_at, i), reference::fold(dtype, op, inputs))
          << "element " << i << " of " << elements << ", " << n << " operands, the first two "
          << hex(inputs[0]) << " and " << hex(n > 1 ? inputs[1] : 0) << ", output in " << out_at;
    }
    for (size_t k = 0; k <= n; ++k) {
      ASSERT_TRUE(operands.guarded(k)) << "vector " << k << ", " << elements << " elements";
      if (k == out_at) continue;
      for (size_t i = 0; i < elements; ++i) ASSERT_EQ(operands.stored(k, i), operands.bits(k, i));
    }
  }

  std::mt19937_64 random_{20240229};
};

TEST_P(EveryKernel, FoldsTwoVectorsOfAnySizeAndAlignmentInPlaceOrNot) {
  for (const size_t elements : sizes()) {
    for (const Values values : {Values::small, Values::any_bits, Values::edges}) {
      if (reference::kSlow && size_t(values) != elements % 3) continue;
      ASSERT_NO_FATAL_FAILURE(check(2, elements, random_() % 3, values, true));
    }
  }
}

// The same bits as to one place, whatever the stores and the alignment, in place or not.
TEST_P(EveryKernel, WritesToTwoPlacesWhatItWritesToOne) {
  const auto [dtype, op, target] = GetParam();
  const Kernels kernels = find_kernels(dtype, op, target);
  const size_t size = dtype_size(dtype);
  constexpr size_t most_offset = 64;
  std::vector<uint8_t> pool(sizes().back() * size + 64);
  for (uint8_t& byte : pool) byte = uint8_t(random_());
  for (const size_t elements : sizes()) {
    const size_t bytes = elements * size;
    for (const Stores stores : {Stores::cached, Stores::stream_other, Stores::stream_both}) {
      if (reference::kSlow && size_t(stores) != elements % 3) continue;
      for (const bool in_place : {false, true}) {
        // Two vectors and two places, all of them equally aligned, or the last one not.
        std::vector<uint8_t> memory[4];
        uint8_t* at[4];
        const size_t offset = random_() % most_offset, last = random_() % 2;
        for (size_t k = 0; k < 4; ++k) {
          memory[k].assign(bytes + 4 * most_offset, 0xab);
          auto* base = memory[k].data();
          base += most_offset - reinterpret_cast<uintptr_t>(base) % most_offset;
          at[k] = base + offset + (k == 3 ? last : 0);
        }
        std::memcpy(at[0], pool.data() + random_() % 64, bytes);
        std::memcpy(at[1], pool.data() + random_() % 64, bytes);
        std::vector<uint8_t> expected(bytes + 1);
        kernels.reduce2(expected.data(), at[0], at[1], elements);
        uint8_t* const first = at[in_place ? 0 : 2];
        uint8_t* const second = at[in_place ? 1 : 3];
        kernels.reduce2_twice(first, second, at[0], at[1], elements, stores);
        ASSERT_EQ(std::memcmp(first, expected.data(), bytes), 0) << elements << " elements";
        ASSERT_EQ(std::memcmp(second, expected.data(), bytes), 0) << elements << " elements";
        for (const uint8_t* place : {first, second}) {
          ASSERT_EQ(place[-1], 0xab);
          ASSERT_EQ(place[bytes], 0xab);
        }
      }
    }
  }
}

#ifdef __x86_64__
TEST(Targets, AreThoseThatHighwayFinds) {
  const struct {
    const char* name;
    int64_t bit;
  } all[] = {{"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"sse4", HWY_SSE4}};
  const auto has = [](int64_t bit) { return (hwy::SupportedTargets() & bit) != 0; };
  for (const std::string name : reduce_target_names()) {
    for (const auto& one : all) {
      if (name == one.name) EXPECT_TRUE(has(one.bit)) << name;
    }
  }
  if (tutti::testing::sanitized) return;  // one instruction set is compiled then
  std::string best = "scalar";
  for (const auto& one : all) {
    if (best == "scalar" && has(one.bit)) best = one.name;
  }
  EXPECT_EQ(reduce_target_names().front(), best);
}
#endif

TEST(Copy, CopiesPagesSideBySide) {
  std::mt19937_64 random(11);
  for (const uint32_t pages : {1u, 2u, 4u, 8u}) {
    for (const size_t about : {pages * 4096, 2 * pages * 4096, 5 * pages * 4096 + 999}) {
      for (size_t bytes = about - 70; bytes < about + 140; bytes += 1 + random() % 9) {
        std::vector<uint8_t> from(bytes + 64), to(bytes + 128, 0xab);
        for (uint8_t& byte : from) byte = uint8_t(random());
        const size_t a = random() % 64, b = 1 + random() % 64;
        fetch_bytes(to.data() + b, from.data() + a, bytes, random() % 2 == 0, pages, 2 << 10);
        stream_fence();
        ASSERT_EQ(std::memcmp(to.data() + b, from.data() + a, bytes), 0) << bytes;
        ASSERT_EQ(to[b - 1], 0xab);
        ASSERT_EQ(to[b + bytes], 0xab);
      }
    }
  }
}

TEST(Copy, CopiesAnySizeToAnyAlignment) {
  const auto fetch = [](void* to, const void* from, size_t n) {
    fetch_bytes(to, from, n, false, 4, 2 << 10);
  };
  const auto fetch_past = [](void* to, const void* from, size_t n) {
    fetch_bytes(to, from, n, true, 4, 2 << 10);
  };
  using Copies = void (*)(void*, const void*, size_t);
  for (const Copies copies : {Copies(stream_copy), Copies(plain_copy), Copies(copy_over),
                              Copies(fetch), Copies(fetch_past)}) {
    std::mt19937_64 random(7);
    for (size_t bytes = 0; bytes < 700; ++bytes) {
      std::vector<uint8_t> from(bytes + 64), to(bytes + 64, 0xab);
      for (uint8_t& byte : from) byte = uint8_t(random());
      const size_t a = random() % 32, b = 1 + random() % 32;
      copies(to.data() + b, from.data() + a, bytes);
      ASSERT_EQ(std::memcmp(to.data() + b, from.data() + a, bytes), 0) << bytes;
      ASSERT_EQ(to[b - 1], 0xab);
      ASSERT_EQ(to[b + bytes], 0xab);
    }
  }
}

TEST_P(EveryKernel, FoldsOneToNineVectorsInOrder) {
  for (const size_t elements : sizes()) {
    const size_t n = 1 + random_() % kMostOperands;
    const auto values = static_cast<Values>(random_() % 3);
    ASSERT_NO_FATAL_FAILURE(check(n, elements, random_() % (n + 1), values, false));
  }
  for (size_t n = 1; n <= kMostOperands; ++n) {
    for (size_t out_at = 0; out_at <= n; ++out_at) {
      ASSERT_NO_FATAL_FAILURE(check(n, 333, out_at, Values::small, false));
      ASSERT_NO_FATAL_FAILURE(check(n, 85, out_at, Values::edges, false));
    }
  }
}

TEST_P(EveryKernel, Folds256Vectors) {
  ASSERT_NO_FATAL_FAILURE(check(256, 150, 256, Values::small, false));
  ASSERT_NO_FATAL_FAILURE(check(256, 7, 128, Values::any_bits, false));
}

// Each edge value with each other one, in both orders.
TEST_P(EveryKernel, FoldsEveryPairOfEdgeValues) {
  const auto [dtype, op, target] = GetParam();
  const Kernels kernels = find_kernels(dtype, op, target);
  const size_t size = dtype_size(dtype);
  const std::vector<Bits> edges = reference::edge_values(dtype);
  std::vector<Bits> a;
  std::vector<Bits> b;
  std::vector<uint8_t> a_bytes;
  std::vector<uint8_t> b_bytes;
  for (const Bits x : edges) {
    for (const Bits y : edges) {
      a.push_back(x);
      b.push_back(y);
      const auto* x_bytes = reinterpret_cast<const uint8_t*>(&x);
      const auto* y_bytes = reinterpret_cast<const uint8_t*>(&y);
      a_bytes.insert(a_bytes.end(), x_bytes, x_bytes + size);
      b_bytes.insert(b_bytes.end(), y_bytes, y_bytes + size);
    }
  }
  std::vector<uint8_t> out(a_bytes.size());
  kernels.reduce2(out.data(), a_bytes.data(), b_bytes.data(), a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    Bits result = 0;
    std::memcpy(&result, out.data() + i * size, size);
    ASSERT_EQ(result, reference::fold(dtype, op, a[i], b[i])) << hex(a[i]) << ", " << hex(b[i]);
  }
}

TEST_P(EveryKernel, DividesForAnAverage) {
  const auto [dtype, op, target] = GetParam();
  const Kernels kernels = find_kernels(dtype, op, target);
  ASSERT_EQ(kernels.divide != nullptr, op == TUTTI_AVG);
  if (op != TUTTI_AVG) return;
  for (const uint32_t divisor : {1u, 2u, 3u, 7u, 64u, 200u, 1000u, 70001u, 3000000000u}) {
    for (const size_t elements : {0, 1, 2, 3, 5, 8, 17, 31, 64, 100, 257, 1031}) {
      for (const Values values : {Values::small, Values::any_bits, Values::edges}) {
        Operands data(dtype, 1, elements, values, random_);
        kernels.divide(data.at(0), elements, divisor);
        ASSERT_TRUE(data.guarded(0));
        for (size_t i = 0; i < elements; ++i) {
          ASSERT_EQ(data.stored(0, i), reference::divide(dtype, data.bits(0, i), divisor))
              << hex(data.bits(0, i)) << " by " << divisor;
        }
      }
    }
  }
}

// A product with a scalar is the product of two elements, whatever the type.
TEST_P(EveryKernel, ScalesForAPremultipliedSum) {
  const auto [dtype, op, target] = GetParam();
  const Kernels kernels = find_kernels(dtype, op, target);
  ASSERT_EQ(kernels.scale != nullptr, op == TUTTI_SUM && dtype != TUTTI_BOOL);
  if (kernels.scale == nullptr) return;
  for (const size_t elements : {0, 1, 2, 3, 5, 8, 17, 31, 64, 100, 257, 1031}) {
    for (const Values values : {Values::small, Values::any_bits, Values::edges}) {
      for (const size_t out_at : {0, 1}) {
        Operands data(dtype, 2, elements, values, random_);
        Operands scalars(dtype, 1, 1, values, random_);
        kernels.scale(data.at(out_at), data.at(0), scalars.at(0), elements);
        ASSERT_TRUE(data.guarded(0) && data.guarded(1));
        for (size_t i = 0; i < elements; ++i) {
          ASSERT_EQ(data.stored(out_at, i),
                    reference::fold(dtype, TUTTI_PROD, data.bits(0, i), scalars.bits(0, 0)))
              << hex(data.bits(0, i)) << " times " << hex(scalars.bits(0, 0));
        }
      }
    }
  }
}

class EveryEightBitFloatKernel : public EveryKernel {};

// All patterns with all others.
TEST_P(EveryEightBitFloatKernel, FoldsEveryPairOfPatterns) {
  const auto [dtype, op, target] = GetParam();
  const Kernels kernels = find_kernels(dtype, op, target);
  std::vector<uint8_t> a(256), b(256), out(256);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i);
  for (size_t second = 0; second < 256; ++second) {
    b.assign(b.size(), static_cast<uint8_t>(second));
    kernels.reduce2(out.data(), a.data(), b.data(), a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(Bits{out[i]}, reference::fold(dtype, op, a[i], second)) << i << ", " << second;
    }
  }
}

class EverySixteenBitFloatKernel : public EveryKernel {};

// All 65,536 patterns, through the conversions both ways, beside values that move the result to
// every place of rounding.
TEST_P(EverySixteenBitFloatKernel, FoldsEveryPattern) {
  const auto [dtype, op, target] = GetParam();
  const Kernels kernels = find_kernels(dtype, op, target);
  std::vector<uint16_t> a(65536);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint16_t>(i);
  std::vector<uint16_t> out(a.size());
  for (const uint16_t second : {0x0000, 0x8000, 0x0001, 0x03FF, 0x1234, 0x3555, 0x3C01, 0x3F81,
                                0x63FF, 0x7BFF, 0x7C00, 0x7F7F, 0xFBFF, 0xFC00}) {
    const std::vector<uint16_t> b(a.size(), second);
    kernels.reduce2(out.data(), a.data(), b.data(), a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(Bits{out[i]}, reference::fold(dtype, op, a[i], second))
          << std::hex << a[i] << ", " << second;
    }
  }
}

// `float_bytes`: of floats of this size only; 0: of all types.
std::vector<Case> cases(size_t float_bytes) {
  std::vector<Case> cases;
  for (const char* target : reduce_target_names()) {
    for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
      const auto dtype = static_cast<tutti_dtype>(t);
      if (dtype_is_binned(dtype)) continue;  // no value of 64 bits; in binned_test.cc
      const bool fits = dtype_is_float(dtype) && dtype_size(dtype) == float_bytes;
      if (float_bytes != 0 && !fits) continue;
      for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
        const auto op = static_cast<tutti_op>(o);
        if (op_supports(op, dtype)) cases.push_back({dtype, op, target});
      }
    }
  }
  return cases;
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(info.param.target) + "_" + dtype_name(info.param.dtype) + "_" +
         op_name(info.param.op);
}

INSTANTIATE_TEST_SUITE_P(All, EveryKernel, ::testing::ValuesIn(cases(0)), name_of);
INSTANTIATE_TEST_SUITE_P(All, EveryEightBitFloatKernel, ::testing::ValuesIn(cases(1)), name_of);
INSTANTIATE_TEST_SUITE_P(All, EverySixteenBitFloatKernel, ::testing::ValuesIn(cases(2)), name_of);

}  // namespace
}  // namespace tutti
