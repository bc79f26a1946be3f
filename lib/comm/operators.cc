// Operators that are not a matter of kernels alone: the program's own.
#include "lib/comm/comm.h"
#include "lib/user_types.h"

namespace tutti {

Status Communicator::bind_operator(Prepared& prepared) {
  const CallKey& key = prepared.key;
  if (unsigned(key.op) < TUTTI_OP_COUNT) {
    prepared.kernels = find_kernels(key.dtype, key.op);
    return {};
  }
  UserOp op;
  if (!find_user_op(key.op, &op)) return {TUTTI_INVALID, "the operator has been freed"};
  prepared.function = {op.function, op.context, key.dtype, prepared.element_size};
  prepared.kernels.user = &prepared.function;
  return {};
}

}  // namespace tutti
