// How entries of sparse vectors travel: what is packed comes out as it was, in the fewer bytes of
// the two forms, and what nobody packed is refused.
#include "lib/sparse/pieces.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

namespace tutti::sparse {
namespace {

TEST(Parts, CoverTheVectorInOrderAndDifferByOneUnit) {
  for (const uint64_t length : {0u, 1u, 31u, 32u, 33u, 1000u}) {
    for (int n = 1; n <= 40; ++n) {
      for (const uint64_t unit : {1u, 32u}) {
        uint64_t end = 0;
        for (int r = 0; r < n; ++r) {
          const Part part = part_of(length, r, n, unit);
          ASSERT_EQ(part.begin, end);
          ASSERT_TRUE(part.begin % unit == 0 || part.begin == length);
          ASSERT_LE(part.size(), (length / unit / uint64_t(n) + 1) * unit);
          end = part.end;
        }
        ASSERT_EQ(end, length);
      }
    }
  }
}

RC_GTEST_PROP(Pieces, ComeOutAsTheyWere, ()) {
  const uint64_t begin = *rc::gen::inRange<uint64_t>(0, 200);
  const uint64_t size = *rc::gen::inRange<uint64_t>(1, 700);
  const size_t value_size = *rc::gen::element<size_t>(1, 2, 4, 8, 64);
  const auto chosen = *rc::gen::container<std::set<uint32_t>>(
      rc::gen::inRange(uint32_t(begin), uint32_t(begin + size)));
  const std::vector<uint32_t> indices(chosen.begin(), chosen.end());
  std::vector<std::byte> values(indices.size() * value_size);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::byte(i * 7);
  const PieceShape shape({begin, begin + size}, indices.size(), value_size);
  RC_ASSERT(shape.bytes() % 8 == 0u);
  RC_ASSERT(shape.bytes() < indices.size() * (4 + value_size) + 8);
  RC_ASSERT(shape.bytes() < (size + 63) / 64 * 8 + indices.size() * value_size + 8);
  std::vector<std::byte> piece(shape.bytes());
  shape.pack({indices.data(), values.data(), indices.size()}, piece.data());
  std::vector<uint32_t> out(indices.size());
  RC_ASSERT(shape.unpack_indices(piece.data(), out.data()).ok());
  RC_ASSERT(out == indices);
  RC_ASSERT(std::equal(values.begin(), values.end(), piece.begin() + long(shape.values_at())));
}

// Indices are where results are written to.
RC_GTEST_PROP(Pieces, OfArbitraryBytesGiveIndicesOfThePartOrAreCorrupt, ()) {
  const uint64_t begin = *rc::gen::inRange<uint64_t>(0, 100);
  const uint64_t size = *rc::gen::inRange<uint64_t>(1, 200);
  const uint64_t count = *rc::gen::inRange<uint64_t>(0, size + 1);
  const PieceShape shape({begin, begin + size}, count, 1);
  const auto bytes = *rc::gen::container<std::vector<uint8_t>>(
      shape.bytes(), *rc::gen::element(0, 1) != 0 ? rc::gen::arbitrary<uint8_t>()
                                                  : rc::gen::element<uint8_t>(0, 0, 0, 1));
  std::vector<uint32_t> out(count);
  const Status status =
      shape.unpack_indices(reinterpret_cast<const std::byte*>(bytes.data()), out.data());
  if (!status.ok()) {
    RC_ASSERT(status.code() == TUTTI_CORRUPT);
    return;
  }
  for (const uint32_t index : out) {
    RC_ASSERT(index >= begin);
    RC_ASSERT(index < begin + size);
  }
  RC_ASSERT(std::adjacent_find(out.begin(), out.end(), std::greater_equal<>()) == out.end());
}

}  // namespace
}  // namespace tutti::sparse
