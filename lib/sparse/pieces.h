// Sparse vectors in pieces: who owns which indices, and how entries travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/status.h"

namespace tutti::sparse {

// Indices are strictly ascending; `values` has as many elements of some type.
struct Entries {
  const uint32_t* indices = nullptr;
  const std::byte* values = nullptr;
  uint64_t count = 0;
};

// The usual sizes are constants, so that the copy is one instruction.
inline void copy_value(std::byte* to, const std::byte* from, size_t size) {
  if (size == 4) {
    std::memcpy(to, from, 4);
  } else if (size == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, size);
  }
}

// Indices [begin, end) of a vector.
struct Part {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};

// The r-th of n parts. Their sizes differ by one `unit` at most and are multiples of it, except
// that of the last part that is not empty.
Part part_of(uint64_t length, int r, int n, uint64_t unit = 1);

// A piece holds entries of a part: their indices, then their values, padded to 8 bytes. The indices
// are numbers of 4 bytes, or a bitmap of the part if that is shorter: so a full part takes an
// eighth of a byte per element more than a dense vector. Its form follows from the number of
// entries, which both ends know.
class PieceShape {
 public:
  PieceShape(Part part, uint64_t count, size_t value_size)
      : part_(part), count_(count), value_size_(value_size) {}

  uint64_t count() const { return count_; }
  bool is_bitmap() const { return bitmap_bytes() < count_ * sizeof(uint32_t); }
  uint64_t bytes() const { return (values_at() + count_ * value_size_ + 7) / 8 * 8; }
  uint64_t values_at() const { return is_bitmap() ? bitmap_bytes() : count_ * sizeof(uint32_t); }
  // `entries`: as many as the shape says, all within the part; `to`: bytes() of them.
  void pack(const Entries& entries, std::byte* to) const;
  // CORRUPT unless they are as in Entries.
  Status unpack_indices(const std::byte* from, uint32_t* indices) const;

 private:
  uint64_t bitmap_bytes() const { return (part_.size() + 63) / 64 * 8; }

  Part part_;
  uint64_t count_;
  size_t value_size_;
};

}  // namespace tutti::sparse
