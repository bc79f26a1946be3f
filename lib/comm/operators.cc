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

Status Communicator::scale_input(const Prepared& prepared, const void** input, void* output) {
  const uint64_t count = prepared.key.count;
  if (count == 0) return {};
  if (output == nullptr) {
    const size_t bytes = count * prepared.element_size;
    try {
      if (work_.size() < bytes) work_.resize(bytes);
    } catch (const std::bad_alloc&) {
      return {TUTTI_NO_MEMORY, "cannot allocate " + std::to_string(bytes) +
                                   " bytes for the products of a pre-multiplied sum"};
    }
    output = work_.data();
  }
  prepared.kernels.scale(output, *input, prepared.scalar.data(), count);
  *input = output;
  return {};
}

}  // namespace tutti
