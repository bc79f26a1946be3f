#include "lib/reduce/user_function.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/base/types.h"

namespace tutti {

namespace {

constexpr size_t most_alignment = 16;
constexpr size_t block_bytes = TUTTI_DTYPE_MOST_BYTES;  // at least one element

struct alignas(most_alignment) Block {
  std::byte bytes[block_bytes];
};

// The largest power of two that divides the size, at most most_alignment.
size_t alignment_of(size_t element_size) {
  return std::min(element_size & (~element_size + 1), most_alignment);
}

}  // namespace

void UserFunction::call(const void* lower, const void* higher, void* out, size_t elements) const {
  call_back("operator", [&] { function(lower, higher, out, elements, dtype, context); });
  if (limit == nullptr || *limit == nullptr || !(*limit)->passed_while_moving()) return;
  throw Thrown{{TUTTI_TIMEOUT, "the program's operator was still combining at the deadline"}};
}

void UserFunction::reduce2(void* out, const void* a, const void* b, size_t elements) const {
  const uintptr_t all = reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(a) |
                        reinterpret_cast<uintptr_t>(b);
  if (all % alignment_of(element_size) == 0) {
    if (elements != 0) call(a, b, out, elements);
    return;
  }
  const size_t most = block_bytes / element_size;
  for (size_t done = 0; done < elements;) {
    const size_t now = std::min(most, elements - done);
    const size_t at = done * element_size, bytes = now * element_size;
    Block lower, higher;
    std::memcpy(lower.bytes, static_cast<const std::byte*>(a) + at, bytes);
    std::memcpy(higher.bytes, static_cast<const std::byte*>(b) + at, bytes);
    call(lower.bytes, higher.bytes, lower.bytes, now);
    std::memcpy(static_cast<std::byte*>(out) + at, lower.bytes, bytes);
    done += now;
  }
}

void UserFunction::reduce2_twice(void* out, void* other, const void* a, const void* b,
                                 size_t elements) const {
  reduce2(out, a, b, elements);
  if (elements != 0) std::memcpy(other, out, elements * element_size);
}

Status bind_function(const UserOp& op, tutti_dtype dtype, tutti_level level, UserFunction* out) {
  if (level == TUTTI_LEVEL_EXACT) {
    return {TUTTI_UNSUPPORTED, "operators of the program's own have no form at level exact"};
  }
  *out = {op.function, op.context, dtype, dtype_size(dtype), level == TUTTI_LEVEL_CANONICAL};
  return {};
}

// The same elements of every operand, at most a block.
struct UserFunction::Operands {
  const void* const* vectors;
  size_t n;
  size_t at;  // bytes

  const void* operator[](size_t k) const { return static_cast<const std::byte*>(vectors[k]) + at; }
};

void UserFunction::fold(const Operands& x, void* out, size_t elements) const {
  Block sum;
  reduce2(sum.bytes, x[0], x[1], elements);
  for (size_t k = 2; k + 1 < x.n; ++k) reduce2(sum.bytes, sum.bytes, x[k], elements);
  reduce2(out, sum.bytes, x[x.n - 1], elements);
}

// A subtree of the tree of canonical-inl.h. Its result is in `room`, unless it is a single operand,
// which is returned as it is.
const void* UserFunction::subtree(const Operands& x, size_t first, size_t size, size_t elements,
                                  void* room) const {
  const size_t pairs = x.n - std::bit_floor(x.n);
  if (size == 1 && first >= pairs) return x[first + pairs];
  if (size == 1) {
    reduce2(room, x[2 * first], x[2 * first + 1], elements);
    return room;
  }
  Block higher;
  const void* const left = subtree(x, first, size / 2, elements, room);
  const void* const right = subtree(x, first + size / 2, size / 2, elements, higher.bytes);
  reduce2(room, left, right, elements);
  return room;
}

void UserFunction::fold_tree(const Operands& x, void* out, size_t elements) const {
  Block result;
  subtree(x, 0, std::bit_floor(x.n), elements, result.bytes);
  std::memcpy(out, result.bytes, elements * element_size);
}

// Block by block, because `out` may be an operand that has not been read yet.
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
    const Operands x{operands, n, done * element_size};
    void* const to = static_cast<std::byte*>(out) + x.at;
    canonical ? fold_tree(x, to, now) : fold(x, to, now);
    done += now;
  }
}

}  // namespace tutti
