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

Status Communicator::bind_operator(CallPlan& call_plan, tutti_level level) const {
  const CallKey& key = call_plan.key;
  if (unsigned(key.op) < TUTTI_OP_COUNT) {
    return find_kernels(key.dtype, key.op, level, &call_plan.kernels);
  }
  UserOp op;
  if (!find_user_op(key.op, &op)) return {TUTTI_INVALID, "the operator has been freed"};
  if (op.function != nullptr) {
    call_plan.kernels.user = &call_plan.function;
    TUTTI_TRY(bind_function(op, key.dtype, level, &call_plan.function));
    call_plan.function.limit = &limit_;
    call_plan.ends_when_done = false;  // it is called under the limit only
    return {};
  }
  if (op.communicator != serial_) {
    return {TUTTI_INVALID, "the pre-multiplied sum was made for another communicator"};
  }
  call_plan.premultiplies = true;
  call_plan.scalar = op.scalar;
  return find_kernels(key.dtype, TUTTI_SUM, level, &call_plan.kernels);
}

Status Communicator::scale_input(const CallPlan& call_plan, Call* call) {
  const CallKey& key = call_plan.key;
  // A v form's count is that of all blocks.
  const bool one_block = input_has_blocks(key.collective) && key.lengths == 0;
  const uint64_t count = key.count * (one_block ? uint64_t(nranks_) : 1);
  if (count == 0) return {};
  TUTTI_TRY(
      grow(&products_, count * call_plan.element_size, "the products of a pre-multiplied sum"));
  call_plan.kernels.scale(products_.data(), call->input, call_plan.scalar.data(), count);
  call->input = products_.data();
  return {};
}

}  // namespace tutti
