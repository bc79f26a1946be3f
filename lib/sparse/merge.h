// What the owner of a part does: the entries of all ranks become one list.
#pragma once

#include <span>

#include "lib/reduce/reduce.h"
#include "lib/sparse/pieces.h"

namespace tutti::sparse {

// Every index of any list, with the values of the lists that have it combined from left to right in
// the order of the lists by `kernels.reduce`: so values narrower than float32 are rounded once.
// The result has room for as many entries as all lists together; returns how many there are.
uint64_t merge(std::span<const Entries> lists, const Kernels& kernels, size_t value_size,
               uint32_t* indices, std::byte* values);

}  // namespace tutti::sparse
