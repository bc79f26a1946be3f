// An operator of the program in place of kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/base/user_types.h"
#include "tutti/tutti.h"

namespace tutti {

// The forms of reduce.h, made of calls of one function. Two operands are passed whole and in place,
// more of them block by block; those that are not aligned as the public header promises are copied
// to aligned blocks first.
struct UserFunction {
  tutti_op_fn function = nullptr;
  void* context = nullptr;
  tutti_dtype dtype = TUTTI_DTYPE_COUNT;
  size_t element_size = 1;        // at most TUTTI_DTYPE_MOST_BYTES
  bool canonical = false;         // reduce() uses the tree of the canonical level
  Limit* const* limit = nullptr;  // of the wait that it is called in, if any; may change

  void reduce(void* out, const void* const* operands, size_t n, size_t elements) const;
  void reduce2(void* out, const void* a, const void* b, size_t elements) const;
  void reduce2_twice(void* out, void* other, const void* a, const void* b, size_t elements) const;

 private:
  struct Operands;
  void call(const void* lower, const void* higher, void* out, size_t elements) const;
  void fold(const Operands& x, void* out, size_t elements) const;
  void fold_tree(const Operands& x, void* out, size_t elements) const;
  const void* subtree(const Operands& x, size_t first, size_t size, size_t elements,
                      void* room) const;
};

// The function of an operator that has one. UNSUPPORTED at level exact: how a function rounds is
// not known.
Status bind_function(const UserOp& op, tutti_dtype dtype, tutti_level level, UserFunction* out);

}  // namespace tutti
