// The part of the C API that makes types and operators.
#include <cstring>

#include "lib/api/guard.h"
#include "lib/base/types.h"
#include "lib/base/user_types.h"

using namespace tutti;

extern "C" {

tutti_status tutti_dtype_create(size_t size, const char* name, tutti_dtype* out) {
  return api::guarded([&]() -> Status {
    if (out == nullptr) return {TUTTI_INVALID, "there is nowhere to put the type"};
    return create_user_dtype(size, name != nullptr ? name : "", out);
  });
}

tutti_status tutti_dtype_free(tutti_dtype dtype) {
  return api::guarded([&] { return free_user_dtype(dtype); });
}

tutti_status tutti_op_create(tutti_op_fn function, void* context, int commutative, tutti_op* out) {
  return api::guarded([&]() -> Status {
    if (function == nullptr) return {TUTTI_INVALID, "the operator's function is NULL"};
    if (out == nullptr) return {TUTTI_INVALID, "there is nowhere to put the operator"};
    UserOp op;
    op.function = function;
    op.context = context;
    op.commutative = commutative != 0;
    return create_user_op(op, out);
  });
}

tutti_status tutti_op_create_premul_sum(tutti_comm comm, const void* scalar, tutti_dtype dtype,
                                        tutti_op* out) {
  return api::guarded(comm, [&](Communicator& c) {
    if (scalar == nullptr) return c.fail({TUTTI_INVALID, "the scalar is NULL"});
    if (out == nullptr) return c.fail({TUTTI_INVALID, "there is nowhere to put the operator"});
    if (!dtype_known(dtype)) {
      return c.fail({TUTTI_INVALID, "unknown type " + std::to_string(int(dtype))});
    }
    if (find_kernels(dtype, TUTTI_SUM).scale == nullptr) {
      return c.fail({TUTTI_INVALID,
                     std::string("a pre-multiplied sum is not defined on ") + dtype_name(dtype)});
    }
    UserOp op;
    op.dtype = dtype;
    op.communicator = c.serial();
    std::memcpy(op.scalar.data(), scalar, dtype_size(dtype));
    Status made = create_user_op(op, out);
    return made.ok() ? TUTTI_OK : c.fail(std::move(made));
  });
}

tutti_status tutti_op_free(tutti_op op) {
  return api::guarded([&] { return free_user_op(op); });
}

}  // extern "C"
