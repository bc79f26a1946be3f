// Reduction kernels: element-wise combination of equally long vectors in a fixed order.
//
// Every instruction set gives the same bits: nothing is contracted or reassociated across operands.
// Integers wrap around. Logical operators give 0 or 1. Floating point (of the thread's default
// environment: round to nearest even, denormals kept):
// - a result that is NaN is the positive quiet NaN without payload (0x7FC00000 in float32),
//   whatever NaN or invalid operation it came from, so that it depends neither on the instruction
//   set nor on the order of the operands;
// - min and max propagate NaN and order -0 below +0;
// - fp16, bf16 and both fp8 are widened to float32, accumulated there over all operands of one
//   call, and rounded once to nearest even; a result beyond the greatest e4m3, 448, after rounding,
//   is NaN;
// - complex numbers are added and divided component by component and multiplied by the schoolbook
//   formula, (ac - bd) + (ad + bc)i, each of its operations rounded; a NaN component is canonical,
//   whatever the other one is;
// - minloc and maxloc order -0 below +0 and let a NaN win over all numbers; of equal values, and of
//   NaNs, the lowest index wins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "lib/base/status.h"
#include "lib/reduce/user_function.h"
#include "tutti/tutti.h"

namespace tutti {

// out[i] = operands[0][i] op operands[1][i] op ... op operands[n-1][i], a left fold in that order.
// `elements` >= 0, n >= 1 (n == 1 copies the bits). `out` may be equal to any of the operands (same
// address) but must not overlap them otherwise. No alignment is required beyond one byte.
using ReduceFn = void (*)(void* out, const void* const* operands, size_t n, size_t elements);

// out[i] = a[i] op b[i]; the two-operand case without the indirection. `out` may be `a` or `b`.
using Reduce2Fn = void (*)(void* out, const void* a, const void* b, size_t elements);

// Which results are written with non-temporal stores. They avoid reading the lines that are
// overwritten, and cost time where the result is read soon. Only if both places are equally
// aligned; else all stores are cached.
enum class Stores : uint8_t { cached, stream_other, stream_both };

// As Reduce2Fn, with the result written to two places in one pass: `out` and `other`, either of
// which may be one of the operands.
using Reduce2TwiceFn = void (*)(void* out, void* other, const void* a, const void* b,
                                size_t elements, Stores stores);

// The final step of an average: data[i] = data[i] / divisor, in place; integers truncate toward
// zero; fp16, bf16 and fp8 divide in float32 and round once. `divisor` >= 1.
using DivideFn = void (*)(void* data, size_t elements, uint32_t divisor);

// The first step of a pre-multiplied sum: out[i] = in[i] * *scalar, an element of the same type, as
// prod does it: fp16, bf16 and fp8 in float32, rounded once. `out` may be `in`.
using ScaleFn = void (*)(void* out, const void* in, const void* scalar, size_t elements);

struct Kernels {
  ReduceFn reduce_fn = nullptr;
  Reduce2Fn reduce2_fn = nullptr;
  Reduce2TwiceFn reduce2_twice_fn = nullptr;
  DivideFn divide = nullptr;  // null unless the operator is avg
  ScaleFn scale = nullptr;    // of sum; null also for bool
  // As `reduce`, but by one fixed tree: the first 2e operands in adjacent pairs, e = n - q and q
  // the largest power of two <= n, then an aligned binary tree over the q that are left. Every node
  // is rounded to the type, so the bits are those of evaluating the tree with `reduce2`.
  ReduceFn reduce_canonical = nullptr;
  // As `reduce`, but independent of the order: equal bits for any permutation of the operands,
  // fewer than 2^31 of them. A sum of floats is the exact one, rounded once to nearest even: NaN if
  // an operand is NaN or two are infinities of different sign; a sum of zero is +0 unless all
  // operands are -0. Null for products of floats.
  ReduceFn reduce_exact = nullptr;
  const UserFunction* user = nullptr;  // instead of the above

  explicit operator bool() const { return reduce_fn != nullptr || user != nullptr; }
  void reduce(void* out, const void* const* operands, size_t n, size_t elements) const {
    if (user != nullptr) [[unlikely]]
      return user->reduce(out, operands, n, elements);
    reduce_fn(out, operands, n, elements);
  }
  void reduce2(void* out, const void* a, const void* b, size_t elements) const {
    if (user != nullptr) [[unlikely]]
      return user->reduce2(out, a, b, elements);
    reduce2_fn(out, a, b, elements);
  }
  // Reduces all operands, and divides where the operator is avg.
  void combine(void* out, const void* const* operands, size_t n, size_t elements) const {
    if (n == 2) {
      reduce2(out, operands[0], operands[1], elements);
    } else {
      reduce(out, operands, n, elements);
    }
    if (divide != nullptr && n > 1) divide(out, elements, uint32_t(n));
  }
  void reduce2_twice(void* out, void* other, const void* a, const void* b, size_t elements,
                     Stores stores) const {
    if (user != nullptr) [[unlikely]]
      return user->reduce2_twice(out, other, a, b, elements);
    reduce2_twice_fn(out, other, a, b, elements, stores);
  }
};

// The kernels of the chosen instruction set: a table look-up, so keep the result rather than ask
// for every call. avg gives the kernels of sum and `divide`. All null when the operator is not
// defined on the type or is the program's own.
Kernels find_kernels(tutti_dtype dtype, tutti_op op);

// As above, of the instruction set with that name; all null when it is not in
// reduce_target_names().
Kernels find_kernels(tutti_dtype dtype, tutti_op op, std::string_view target);

// find_kernels(dtype, op), with `reduce` as the level has it. UNSUPPORTED where the operator has no
// such form.
Status find_kernels(tutti_dtype dtype, tutti_op op, tutti_level level, Kernels* out);

// The instruction sets that were compiled and that this processor has, best first: some of
// "avx512", "avx2", "sse4", "scalar" on x86-64; "neon" on aarch64. Never empty.
std::span<const char* const> reduce_target_names();

// The chosen instruction set: the best, unless reduce_target_force() has set another.
const char* reduce_target_name();

// From now on find_kernels(dtype, op) gives the kernels of `name`; kernels handed out earlier stay
// what they were. INVALID, with the names that are allowed, for any other. Thread-safe.
Status reduce_target_force(std::string_view name);

}  // namespace tutti
