#include "lib/plan/plan.h"

#include <bit>

#include "lib/schedule/chunks.h"

namespace tutti::plan {

namespace {

constexpr uint64_t line_bytes = 64;

}  // namespace

size_t Plan::bytes() const {
  return sizeof(Plan) + rows.size() * sizeof(Row) + operands.size() * sizeof(Operand) +
         (outgoing.size() + incoming.size()) * sizeof(Record);
}

Binding::Binding(const Plan& plan)
    : plan_(&plan),
      rows_(plan.rows.size()),
      outgoing_(plan.outgoing.size()),
      incoming_(plan.incoming.size()),
      operands_(plan.operands.size()) {}

void Binding::bind(uint64_t count, uint32_t element_size) {
  count_ = count;
  element_size_ = element_size;
  element_shift_ = std::has_single_bit(element_size) ? std::countr_zero(element_size) : -1;
  // Chunks begin at multiples of a cache line where the vector does.
  const uint64_t unit = element_size < line_bytes ? line_bytes / element_size : 1;
  const schedule::ChunkMap map(count, plan_->chunks, unit);
  const auto at = [&](uint32_t chunk) { return map.begin(chunk) * element_size; };

  scratch_bytes_ = 0;
  for (size_t row = 0; row < rows_.size(); ++row) {
    rows_[row] = scratch_bytes_;
    const uint64_t used = at(plan_->rows[row].end) - at(plan_->rows[row].begin);
    scratch_bytes_ += (used + line_bytes - 1) / line_bytes * line_bytes;
  }
  const auto offset = [&](Role role, uint32_t chunk) {
    if (role != Role::scratch) return at(chunk);
    const uint32_t row = chunk / plan_->chunks;
    return rows_[row] + at(chunk % plan_->chunks) - at(plan_->rows[row].begin);
  };
  const auto place = [&](const Record& record) {
    // The size is that of the vector chunks that the range stands for.
    const bool sends = record.verb == Verb::send;
    const Role role = sends ? record.from_role : record.to_role;
    uint32_t begin = sends ? record.from : record.to;
    if (role == Role::scratch) begin %= plan_->chunks;
    Place result;
    result.bytes = at(begin + record.chunks) - at(begin);
    if (!sends) result.to = offset(record.to_role, record.to);
    const bool has_from = record.verb != Verb::recv && record.verb != Verb::reduce;
    if (has_from) result.from = offset(record.from_role, record.from);
    return result;
  };
  for (size_t i = 0; i < outgoing_.size(); ++i) outgoing_[i] = place(plan_->outgoing[i]);
  for (size_t i = 0; i < incoming_.size(); ++i) incoming_[i] = place(plan_->incoming[i]);
  for (size_t i = 0; i < operands_.size(); ++i) {
    operands_[i] = offset(plan_->operands[i].role, plan_->operands[i].chunk);
  }
}

}  // namespace tutti::plan
