#include "lib/plan/run.h"

namespace tutti::plan {

uint64_t Run::reduce(const Record& record, std::byte* to, uint64_t most) {
  const uint64_t bytes = std::min<uint64_t>(most, whole_granules(piece_bytes_, element_size_));
  const Operand* operands = plan_->operands.data() + record.from;
  const uint64_t* offsets = binding_->operands() + record.from;
  for (uint32_t i = 0; i < record.operands; ++i) {
    pointers_[i] = bases_[size_t(operands[i].memory)] + offsets[i] + incoming_.done;
  }
  kernels_->reduce(to, pointers_.data(), record.operands, elements_in(bytes));
  return bytes;
}

}  // namespace tutti::plan
