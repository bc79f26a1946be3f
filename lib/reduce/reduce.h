// Reduction kernels: element-wise combination of equally long vectors in a fixed order.
//
// Every instruction set gives the same bits: nothing is contracted or reassociated across operands.
// Floating-point min and max propagate NaN and order -0 below +0. fp16 and bf16 are widened to
// float32, accumulated there over all operands of one call, and rounded once to nearest even.
// Integers wrap around. Logical operators give 0 or 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/tutti.h"

namespace tutti {

// out[i] = operands[0][i] op operands[1][i] op ... op operands[n-1][i], a left fold in that order.
// `elements` >= 0, n >= 1 (n == 1 copies). `out` may be equal to any of the operands (same address)
// but must not overlap them otherwise. No alignment is required beyond one byte.
using ReduceFn = void (*)(void* out, const void* const* operands, size_t n, size_t elements);

// out[i] = a[i] op b[i]; the two-operand case without the indirection. `out` may be `a` or `b`.
using Reduce2Fn = void (*)(void* out, const void* a, const void* b, size_t elements);

// The final step of an average: data[i] = data[i] / divisor, in place; integers truncate toward
// zero; fp16 and bf16 divide in float32 and round once.
using DivideFn = void (*)(void* data, size_t elements, uint32_t divisor);

struct Kernels {
  ReduceFn reduce = nullptr;
  Reduce2Fn reduce2 = nullptr;
  DivideFn divide = nullptr;  // null unless the operator is avg
};

// The kernels of the best instruction set found at run time. avg gives the kernels of sum and
// `divide`. All null when the operator is not defined on the type.
Kernels find_kernels(tutti_dtype dtype, tutti_op op);

}  // namespace tutti
