// Operators that are not a matter of kernels alone: the program's own, and pre-multiplied sums.
#include <atomic>

#include "lib/base/types.h"
#include "lib/base/user_types.h"
#include "lib/comm/comm.h"

namespace tutti {

uint64_t Communicator::next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

tutti_level Communicator::level_of(const CallKey& key) const {
  if (!reduces(key.collective) || key.collective == Collective::barrier) return TUTTI_LEVEL_FAST;
  return key.level != TUTTI_LEVEL_DEFAULT ? key.level : settings_.level;
}

Status Communicator::bind_operator(Prepared& prepared, tutti_level level) const {
  const CallKey& key = prepared.key;
  if (unsigned(key.op) < TUTTI_OP_COUNT) {
    return find_kernels(key.dtype, key.op, level, &prepared.kernels);
  }
  UserOp op;
  if (!find_user_op(key.op, &op)) return {TUTTI_INVALID, "the operator has been freed"};
  if (op.function != nullptr) {
    prepared.kernels.user = &prepared.function;
    TUTTI_TRY(bind_function(op, key.dtype, level, &prepared.function));
    prepared.function.limit = &limit_;
    prepared.ends_when_done = false;  // it is called under the limit only
    return {};
  }
  if (op.communicator != serial_) {
    return {TUTTI_INVALID, "the pre-multiplied sum was made for another communicator"};
  }
  prepared.premultiplies = true;
  prepared.scalar = op.scalar;
  return find_kernels(key.dtype, TUTTI_SUM, level, &prepared.kernels);
}

Status Communicator::scale_input(const Prepared& prepared, Call* call) {
  const CallKey& key = prepared.key;
  // A v form's count is that of all blocks.
  const bool one_block = key.collective == Collective::reduce_scatter && key.lengths == 0;
  const uint64_t count = key.count * (one_block ? uint64_t(nranks_) : 1);
  if (count == 0) return {};
  TUTTI_TRY(
      grow(&products_, count * prepared.element_size, "the products of a pre-multiplied sum"));
  prepared.kernels.scale(products_.data(), call->input, prepared.scalar.data(), count);
  call->input = products_.data();
  return {};
}

}  // namespace tutti
