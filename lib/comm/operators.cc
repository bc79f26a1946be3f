// Operators that are not a matter of kernels alone: the program's own, and pre-multiplied sums.
#include <atomic>

#include "lib/comm/comm.h"
#include "lib/types.h"
#include "lib/user_types.h"

namespace tutti {

uint64_t Communicator::next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Status Communicator::bind_operator(Prepared& prepared) const {
  const CallKey& key = prepared.key;
  if (unsigned(key.op) < TUTTI_OP_COUNT) {
    prepared.kernels = find_kernels(key.dtype, key.op);
    return {};
  }
  UserOp op;
  if (!find_user_op(key.op, &op)) return {TUTTI_INVALID, "the operator has been freed"};
  if (op.function != nullptr) {
    prepared.function = {op.function, op.context, key.dtype, prepared.element_size};
    prepared.kernels.user = &prepared.function;
    return {};
  }
  if (op.communicator != serial_) {
    return {TUTTI_INVALID, "the pre-multiplied sum was made for another communicator"};
  }
  prepared.kernels = find_kernels(key.dtype, TUTTI_SUM);
  prepared.premultiplies = true;
  prepared.scalar = op.scalar;
  return {};
}

Status Communicator::scale_input(const Prepared& prepared, Call* call) {
  const CallKey& key = prepared.key;
  // A v form's count is that of all blocks.
  const bool one_block = key.collective == Collective::reduce_scatter && key.lengths == 0;
  const uint64_t count = key.count * (one_block ? uint64_t(nranks_) : 1);
  if (count == 0) return {};
  const size_t bytes = count * prepared.element_size;
  try {
    if (products_.size() < bytes) products_.resize(bytes);
  } catch (const std::bad_alloc&) {
    return {TUTTI_NO_MEMORY, "cannot allocate " + std::to_string(bytes) +
                                 " bytes for the products of a pre-multiplied sum"};
  }
  prepared.kernels.scale(products_.data(), call->input, prepared.scalar.data(), count);
  call->input = products_.data();
  return {};
}

}  // namespace tutti
