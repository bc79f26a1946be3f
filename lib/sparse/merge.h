// What the owner of a part does: merges the entries of all ranks into one list.
#pragma once

#include <span>

#include "lib/reduce/reduce.h"
#include "lib/sparse/pieces.h"

namespace tutti::sparse {

// The result has every index of any list. The values that lists have for an index are combined by
// `kernels.reduce` from left to right, in the order of the lists, so that values narrower than
// float32 are rounded once. `indices` and `values` have room for as many entries as all lists
// together; returns how many there are.
uint64_t merge(std::span<const Entries> lists, const Kernels& kernels, size_t value_size,
               uint32_t* indices, std::byte* values);

}  // namespace tutti::sparse
