// A part of another rank's vector, read where it lies. The edges of the vector, which the others do
// not reach (adopted.h), are read from copies.
#pragma once

#include <algorithm>

#include "lib/shared_memory/regions.h"

namespace tutti::shared {

class MappedPart {
 public:
  MappedPart() = default;
  // The part begins at `from` of the vector, which is `bytes` long and lies at `vector` in this
  // process; `rank` has copied these edges of it.
  MappedPart(const Regions& regions, uint32_t rank, const Edges& edges, const std::byte* vector,
             uint64_t bytes, uint64_t from)
      : vector_(vector), from_(from), head_end_(edges.head), tail_begin_(bytes - edges.tail) {
    if (edges.head != 0) head_ = regions.head_copy(rank);
    if (edges.tail != 0) tail_ = regions.tail_copy(rank);
  }

  // Where the part's byte at `offset` lies. *bytes: how many are wanted from there on, and how many
  // of them lie there in one stretch.
  const std::byte* at(uint64_t offset, size_t* bytes) const {
    const uint64_t in_vector = from_ + offset;
    if (in_vector >= tail_begin_) return tail_ + (in_vector - tail_begin_);
    const bool in_head = in_vector < head_end_;
    *bytes = std::min<uint64_t>(*bytes, (in_head ? head_end_ : tail_begin_) - in_vector);
    return (in_head ? head_ : vector_) + in_vector;
  }

 private:
  const std::byte *vector_ = nullptr, *head_ = nullptr, *tail_ = nullptr;
  uint64_t from_ = 0, head_end_ = 0, tail_begin_ = 0;
};

}  // namespace tutti::shared
