// The canonical tree of every instruction set against the same tree evaluated node by node: with
// the plain reference, and with the library's own two-operand kernel.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "lib/base/types.h"
#include "lib/reduce/reduce.h"
#include "tests/reduce/reference.h"

namespace tutti {
namespace {

using reference::Bits;

// The tree over survivors [begin, end), as the contract words it.
template <class Value, class Node>
Value aligned(const std::vector<Value>& survivors, size_t begin, size_t end, const Node& node) {
  if (end - begin == 1) return survivors[begin];
  const size_t middle = begin + (end - begin) / 2;
  return node(aligned(survivors, begin, middle, node), aligned(survivors, middle, end, node));
}

template <class Value, class Node>
Value canonical(const std::vector<Value>& operands, const Node& node) {
  size_t survivors = 1;
  while (survivors * 2 <= operands.size()) survivors *= 2;
  const size_t extra = operands.size() - survivors;
  std::vector<Value> left;
  for (size_t k = 0; k < 2 * extra; k += 2) left.push_back(node(operands[k], operands[k + 1]));
  left.insert(left.end(), operands.begin() + ptrdiff_t(2 * extra), operands.end());
  return aligned(left, 0, left.size(), node);
}

struct Case {
  tutti_dtype dtype;
  tutti_op op;
  const char* target;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.target << " " << dtype_name(c.dtype) << " " << op_name(c.op);
}

enum class Values { moderate, any_bits, edges };

class Canonical : public testing::TestWithParam<Case> {
 protected:
  using Vector = std::vector<uint8_t>;

  Vector random_vector(size_t elements, Values values) {
    const tutti_dtype dtype = GetParam().dtype;
    const size_t size = dtype_size(dtype);
    static thread_local std::vector<Bits> edges;
    edges = reference::edge_values(dtype);
    Vector bytes(elements * size);
    for (size_t i = 0; i < elements; ++i) {
      Bits value = random_();
      if (values == Values::edges) value = edges[value % edges.size()];
      if (values == Values::moderate && dtype_is_float(dtype)) value = moderate(value);
      std::memcpy(&bytes[i * size], &value, size);
    }
    return bytes;
  }

  // Both signs and exponents around that of 1, so that sums and products round at every node and
  // stay finite.
  Bits moderate(Bits random) const {
    const size_t bits = 8 * dtype_size(GetParam().dtype);
    Bits one = 0;  // its pattern
    Bits spread = 0;
    switch (GetParam().dtype) {
      case TUTTI_FLOAT16:
        one = 0x3c00, spread = 0x0800;
        break;
      case TUTTI_BFLOAT16:
        one = 0x3f80, spread = 0x0100;
        break;
      case TUTTI_FLOAT32:
        one = 0x3f800000, spread = Bits{4} << 23;
        break;
      default:
        one = Bits{1023} << 52, spread = Bits{6} << 52;
    }
    return ((random & 1) << (bits - 1)) | (one - spread / 2 + (random >> 1) % spread);
  }

  Bits at(const Vector& vector, size_t i) const {
    const size_t size = dtype_size(GetParam().dtype);
    Bits value = 0;
    std::memcpy(&value, &vector[i * size], size);
    return value;
  }

  // Folds n vectors into vector `out_at`, n meaning one of its own.
  void check(size_t n, size_t elements, size_t out_at, Values values) {
    const auto [dtype, op, target] = GetParam();
    const Kernels kernels = find_kernels(dtype, op, target);
    std::vector<Vector> vectors;
    for (size_t k = 0; k <= n; ++k) vectors.push_back(random_vector(elements, values));
    const std::vector<Vector> inputs(vectors.begin(), vectors.begin() + ptrdiff_t(n));
    std::vector<const void*> pointers;
    for (size_t k = 0; k < n; ++k) pointers.push_back(vectors[k].data());
    kernels.reduce_canonical(vectors[out_at].data(), pointers.data(), n, elements);

    const Vector by_pairs = canonical(inputs, [&](const Vector& left, const Vector& right) {
      Vector result(left.size());
      kernels.reduce2(result.data(), left.data(), right.data(), elements);
      return result;
    });
    ASSERT_EQ(vectors[out_at], by_pairs) << n << " operands of " << elements << " elements";
    for (size_t i = 0; i < elements; ++i) {
      std::vector<Bits> leaves;
      leaves.reserve(n);
      for (const Vector& input : inputs) leaves.push_back(at(input, i));
      const Bits expected = canonical(leaves, [&](Bits left, Bits right) {
        return reference::fold(GetParam().dtype, GetParam().op, left, right);
      });
      ASSERT_EQ(at(vectors[out_at], i), expected)
          << std::hex << "element " << i << " of " << elements << ", " << n << " operands";
    }
  }

  std::mt19937_64 random_{20240301};
};

TEST_P(Canonical, IsTheFixedTreeForOneTo33Operands) {
  for (size_t n = 1; n <= 33; ++n) {
    for (const Values values : {Values::moderate, Values::any_bits, Values::edges}) {
      if (reference::kSlow && size_t(values) != n % 3) continue;
      ASSERT_NO_FATAL_FAILURE(check(n, 1 + random_() % 300, random_() % (n + 1), values));
    }
  }
  ASSERT_NO_FATAL_FAILURE(check(64, 100, 64, Values::moderate));
  ASSERT_NO_FATAL_FAILURE(check(255, 70, 3, Values::moderate));
}

TEST_P(Canonical, TakesVectorsOfAnySize) {
  for (size_t elements = 0; elements <= 150; ++elements) {
    ASSERT_NO_FATAL_FAILURE(check(5, elements, elements % 6, Values::edges));
  }
  ASSERT_NO_FATAL_FAILURE(check(7, 4099, 2, Values::moderate));
}

// In which operators the tree matters at all is asserted, so that the comparison above cannot pass
// for want of difficult values.
TEST_P(Canonical, DiffersFromTheLeftFoldOnlyWhereOperatorsRound) {
  const auto [dtype, op, target] = GetParam();
  const Kernels kernels = find_kernels(dtype, op, target);
  std::vector<Vector> vectors;
  std::vector<const void*> pointers;
  for (size_t k = 0; k < 16; ++k) vectors.push_back(random_vector(1000, Values::moderate));
  pointers.reserve(vectors.size());
  for (const Vector& vector : vectors) pointers.push_back(vector.data());
  Vector tree(vectors[0].size()), left_fold(vectors[0].size());
  kernels.reduce_canonical(tree.data(), pointers.data(), 16, 1000);
  kernels.reduce(left_fold.data(), pointers.data(), 16, 1000);
  const bool real = dtype_is_float(dtype) || dtype_kind(dtype) == DtypeKind::complex;
  const bool rounds = real && (op == TUTTI_SUM || op == TUTTI_AVG || op == TUTTI_PROD);
  EXPECT_EQ(tree != left_fold, rounds);
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const char* target : reduce_target_names()) {
    for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
      for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
        const auto dtype = static_cast<tutti_dtype>(t);
        const auto op = static_cast<tutti_op>(o);
        if (dtype_is_binned(dtype)) continue;  // no value of 64 bits; in binned_test.cc
        if (op_supports(op, dtype)) cases.push_back({dtype, op, target});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Canonical, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return std::string(info.param.target) + "_" +
                                  dtype_name(info.param.dtype) + "_" + op_name(info.param.op);
                         });

}  // namespace
}  // namespace tutti
