// The types and operators that the program has made: process-wide tables, behind lib/base/types.h.
//
// A number is never assigned twice, so what is prepared for one (the communicator's cache) is never
// used for a later one. Asking whether a number is alive costs one load, without a lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/status.h"
#include "tutti/tutti.h"

namespace tutti {

// A function of the program, or a pre-multiplied sum.
struct UserOp {
  tutti_op_fn function = nullptr;  // null: a pre-multiplied sum
  void* context = nullptr;
  bool commutative = true;
  // Of a pre-multiplied sum:
  tutti_dtype dtype = TUTTI_DTYPE_COUNT;
  uint64_t communicator = 0;                       // Communicator::serial()
  alignas(16) std::array<std::byte, 16> scalar{};  // an element of the type
};

// INVALID for a size of 0 or more than TUTTI_DTYPE_MOST_BYTES and for no name; NO_MEMORY when there
// are too many.
Status create_user_dtype(size_t size, std::string_view name, tutti_dtype* out);
Status create_user_op(const UserOp& op, tutti_op* out);
// INVALID unless the type or operator is alive.
Status free_user_dtype(tutti_dtype dtype);
Status free_user_op(tutti_op op);

// Bytes of one element, 0 unless the type is alive.
size_t user_dtype_size(tutti_dtype dtype);
// nullptr unless the type is alive; valid until it is freed.
const char* user_dtype_name(tutti_dtype dtype);

// What every call needs to know of its operator; all false unless it is alive.
struct UserOpTraits {
  bool alive = false;
  bool commutative = false;
  bool premultiplied = false;
  tutti_dtype dtype = TUTTI_DTYPE_COUNT;  // the only one that a pre-multiplied sum has
};
UserOpTraits user_op_traits(tutti_op op);
// All about an operator; false unless it is alive. Takes a lock.
bool find_user_op(tutti_op op, UserOp* out);

}  // namespace tutti
