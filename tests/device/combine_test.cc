// Every kernel that combines, on the host, against the kernels of lib/reduce, bit for bit.
#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "tests/device/kernels_support.h"
#include "tests/reduce/reference.h"

namespace tutti::device {
namespace {

using Vector = std::vector<uint8_t>;

struct Case {
  tutti_dtype dtype;
  tutti_op op;
  bool canonical;
};

void PrintTo(const Case& c, std::ostream* out) { *out << kernel_name(c.dtype, c.op, c.canonical); }

constexpr uint8_t guard = 0xA5;
constexpr size_t margin = 48;

// Bytes at an offset from a boundary of 64, between guards.
class Memory {
 public:
  Memory(size_t bytes, size_t offset) : bytes_(bytes), all_(bytes + 2 * margin + 128, guard) {
    begin_ = margin + (64 - (address_of(all_.data()) + margin) % 64) % 64 + offset;
  }
  uint8_t* data() { return all_.data() + begin_; }
  Vector content() { return {data(), data() + bytes_}; }
  bool guarded() const {
    for (size_t i = 0; i < all_.size(); ++i) {
      if ((i < begin_ || i >= begin_ + bytes_) && all_[i] != guard) return false;
    }
    return true;
  }

 private:
  size_t bytes_, begin_;
  Vector all_;
};

// How the vectors of a call lie: all on the boundaries of packets, all as far past one, each where
// its elements may be, anywhere.
enum class Layout { packets, shifted, elements, bytes };

class EveryCombine : public testing::TestWithParam<Case> {
 protected:
  size_t size() const { return dtype_size(GetParam().dtype); }

  Vector random_vector(size_t elements, bool edges) {
    Vector bytes(elements * size());
    for (size_t i = 0; i < elements; ++i) {
      reference::Bits value = reference::Bits{random_()} << 64 | random_();
      if (edges) value = edges_[size_t(value % edges_.size())];
      std::memcpy(&bytes[i * size()], &value, size());
    }
    return bytes;
  }

  size_t offset(Layout layout) {
    const size_t lane = dtype_kind(GetParam().dtype) == DtypeKind::complex ||
                                dtype_kind(GetParam().dtype) == DtypeKind::located
                            ? size() / 2
                            : size();
    if (layout == Layout::packets) return 0;
    if (layout == Layout::shifted) return shift_;
    return layout == Layout::elements ? random_() % (16 / lane) * lane : random_() % 16;
  }

  Vector expected(const std::vector<Vector>& operands, uint32_t divisor) {
    const auto [dtype, op, canonical] = GetParam();
    const Kernels kernels = find_kernels(dtype, op);
    std::vector<const void*> pointers;
    for (const Vector& operand : operands) pointers.push_back(operand.data());
    Vector result(operands[0].size());
    const ReduceFn reduce = canonical ? kernels.reduce_canonical : kernels.reduce_fn;
    reduce(result.data(), pointers.data(), operands.size(), result.size() / size());
    if (op == TUTTI_AVG) kernels.divide(result.data(), result.size() / size(), divisor);
    return result;
  }

  // n operands into `outputs` places, the first being operand `in_place` unless that is n.
  void check(uint32_t n, size_t elements, Layout layout, uint32_t outputs, uint32_t in_place) {
    shift_ = random_() % 16;
    const auto [dtype, op, canonical] = GetParam();
    const HostKernel kernel = find_host_kernel(kernel_name(dtype, op, canonical));
    ASSERT_NE(kernel, nullptr);
    Ranks ranks(1);
    CombineArguments arguments{};
    arguments.common = ranks.common(0);
    arguments.operands = n;
    arguments.outputs = outputs;
    arguments.divide_by = op == TUTTI_AVG ? n + 1 : 0;
    arguments.count = elements;
    std::vector<Vector> operands;
    std::vector<Memory> from, to;
    for (uint32_t k = 0; k < n; ++k) {
      operands.push_back(random_vector(elements, random_() % 2 == 0));
      from.emplace_back(elements * size(), offset(layout));
      std::copy(operands[k].begin(), operands[k].end(), from[k].data());
    }
    for (uint32_t k = 0; k < outputs; ++k) to.emplace_back(elements * size(), offset(layout));
    for (uint32_t k = 0; k < n; ++k) arguments.from[k] = at(from[k].data());
    for (uint32_t k = 0; k < outputs; ++k) arguments.to[k] = at(to[k].data());
    if (in_place < n) arguments.to[0] = arguments.from[in_place];
    kernel(&arguments);

    const Vector result = expected(operands, arguments.divide_by);
    for (uint32_t k = 0; k < outputs; ++k) {
      Memory& written = k == 0 && in_place < n ? from[in_place] : to[k];
      ASSERT_EQ(written.content(), result)
          << n << " operands of " << elements << " elements, output " << k << " of " << outputs
          << ", layout " << int(layout) << ", in place " << in_place;
      ASSERT_TRUE(written.guarded());
    }
    for (uint32_t k = 0; k < n; ++k) {
      if (k != in_place) {
        ASSERT_EQ(from[k].content(), operands[k]);
      }
    }
  }

  std::mt19937_64 random_{20261122};
  std::vector<reference::Bits> edges_ = reference::edge_values(GetParam().dtype);
  size_t shift_ = 0;
};

TEST_P(EveryCombine, HasTheBitsOfTheHost) {
  constexpr Layout layouts[] = {Layout::packets, Layout::shifted, Layout::elements, Layout::bytes};
  for (uint32_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 31, 32}) {
    for (const Layout layout : layouts) {
      const uint32_t outputs = 1 + uint32_t(random_() % 3);
      ASSERT_NO_FATAL_FAILURE(check(n, 1 + random_() % 200, layout, outputs, n));
      ASSERT_NO_FATAL_FAILURE(check(n, 1 + random_() % 200, layout, 1, uint32_t(random_() % n)));
    }
  }
}

TEST_P(EveryCombine, TakesVectorsOfAnySize) {
  for (size_t elements = 0; elements <= 70; ++elements) {
    ASSERT_NO_FATAL_FAILURE(check(3, elements, Layout::shifted, 1, 3));
    ASSERT_NO_FATAL_FAILURE(check(2, elements, Layout::packets, 2, 1));
  }
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
    for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
      const auto dtype = static_cast<tutti_dtype>(t);
      const auto op = static_cast<tutti_op>(o);
      if (!op_supports(op, dtype) || dtype_is_binned(dtype)) continue;
      cases.push_back({dtype, op, false});
      if (op_rounds(op, dtype)) cases.push_back({dtype, op, true});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, EveryCombine, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return std::string(dtype_name(info.param.dtype)) + "_" +
                                  op_name(info.param.op) +
                                  (info.param.canonical ? "_canonical" : "");
                         });

}  // namespace
}  // namespace tutti::device
