// What the kernel files export to the table: one function per family of types and instruction set.
// Included only inside lib/reduce.
#pragma once

#include <cstddef>
#include <span>

#include "lib/reduce/reduce.h"

namespace tutti::reduce {

// The kernels of one instruction set for the types of a family; all null for other types and for
// operators that the type does not have.
using FamilyFn = Kernels (*)(tutti_dtype dtype, tutti_op op);

struct Target {
  int64_t bit;       // Highway's number of the instruction set
  const char* name;  // ours
  FamilyFn kernels;
};

// One entry per compiled instruction set, best first; the same sets in every family.
std::span<const Target> float_targets();   // float32, float64
std::span<const Target> half_targets();    // float16, bfloat16
std::span<const Target> narrow_targets();  // integers of 8 and 16 bits, bool
std::span<const Target> wide_targets();    // integers of 32 and 64 bits
std::span<const Target> float8_targets();  // float8_e4m3, float8_e5m2
std::span<const Target> complex_targets();
std::span<const Target> located_targets();  // values with an index

}  // namespace tutti::reduce
