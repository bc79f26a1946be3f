#include "lib/reduce/user_function.h"

#include <algorithm>
#include <cstring>

namespace tutti {

namespace {

constexpr size_t most_alignment = 16;
constexpr size_t block_bytes = TUTTI_DTYPE_MOST_BYTES;  // at least one element

struct alignas(most_alignment) Block {
  std::byte bytes[block_bytes];
};

// The largest power of two that divides the size, within reason.
size_t alignment_of(size_t element_size) {
  return std::min(element_size & (~element_size + 1), most_alignment);
}

}  // namespace

void UserFunction::reduce2(void* out, const void* a, const void* b, size_t elements) const {
  const uintptr_t all = reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(a) |
                        reinterpret_cast<uintptr_t>(b);
  if (all % alignment_of(element_size) == 0) {
    if (elements != 0) function(a, b, out, elements, dtype, context);
    return;
  }
  const size_t most = block_bytes / element_size;
  for (size_t done = 0; done < elements;) {
    const size_t now = std::min(most, elements - done);
    const size_t at = done * element_size, bytes = now * element_size;
    Block lower, higher;
    std::memcpy(lower.bytes, static_cast<const std::byte*>(a) + at, bytes);
    std::memcpy(higher.bytes, static_cast<const std::byte*>(b) + at, bytes);
    function(lower.bytes, higher.bytes, lower.bytes, now, dtype, context);
    std::memcpy(static_cast<std::byte*>(out) + at, lower.bytes, bytes);
    done += now;
  }
}

void UserFunction::reduce2_twice(void* out, void* other, const void* a, const void* b,
                                 size_t elements) const {
  reduce2(out, a, b, elements);
  if (elements != 0) std::memcpy(other, out, elements * element_size);
}

// Block by block, because `out` may be an operand that is still to be read.
void UserFunction::reduce(void* out, const void* const* operands, size_t n, size_t elements) const {
  if (n == 2) return reduce2(out, operands[0], operands[1], elements);
  if (n == 1) {
    if (out != operands[0] && elements != 0) {
      std::memcpy(out, operands[0], elements * element_size);
    }
    return;
  }
  const size_t most = block_bytes / element_size;
  for (size_t done = 0; done < elements;) {
    const size_t now = std::min(most, elements - done);
    const size_t at = done * element_size;
    const auto operand = [&](size_t k) { return static_cast<const std::byte*>(operands[k]) + at; };
    Block sum;
    reduce2(sum.bytes, operand(0), operand(1), now);
    for (size_t k = 2; k + 1 < n; ++k) reduce2(sum.bytes, sum.bytes, operand(k), now);
    reduce2(static_cast<std::byte*>(out) + at, sum.bytes, operand(n - 1), now);
    done += now;
  }
}

}  // namespace tutti
