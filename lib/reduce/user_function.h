// A function of the program in the place of kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/tutti.h"

namespace tutti {

// The three forms of reduce.h, made of calls of one function. It gets whole vectors where they lie;
// only where one of them is not aligned as the header promises do they go through blocks that are.
struct UserFunction {
  tutti_op_fn function = nullptr;
  void* context = nullptr;
  tutti_dtype dtype = TUTTI_DTYPE_COUNT;
  size_t element_size = 1;  // at most TUTTI_DTYPE_MOST_BYTES

  void reduce(void* out, const void* const* operands, size_t n, size_t elements) const;
  void reduce2(void* out, const void* a, const void* b, size_t elements) const;
  void reduce2_twice(void* out, void* other, const void* a, const void* b, size_t elements) const;
};

}  // namespace tutti
