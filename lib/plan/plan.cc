#include "lib/plan/plan.h"

#include <bit>

#include "lib/schedule/chunks.h"

namespace tutti::plan {

namespace {

constexpr uint64_t line_bytes = 64;

// Chunks of nearly the same length, in the buffers as in the vector. Has the interface of Extents.
struct EvenChunks {
  uint32_t element_size;
  const std::vector<uint64_t>& begin;

  uint64_t input(uint32_t chunk) const { return begin[chunk]; }
  uint64_t output(uint32_t chunk) const { return begin[chunk]; }
  uint64_t bytes(uint32_t first, uint32_t end) const { return begin[end] - begin[first]; }
};

}  // namespace

size_t Plan::bytes() const {
  return sizeof(Plan) + rows.size() * sizeof(Row) + work.size() * sizeof(uint32_t) +
         operands.size() * sizeof(Operand) + (outgoing.size() + incoming.size()) * sizeof(Record);
}

Binding::Binding(const Plan& plan)
    : plan_(&plan),
      begin_(plan.chunks + size_t{1}),
      rows_(plan.rows.size()),
      work_(plan.work.size()),
      outgoing_(plan.outgoing.size()),
      incoming_(plan.incoming.size()),
      operands_(plan.operands.size()) {}

void Binding::bind(uint64_t count, uint32_t element_size) {
  count_ = count;
  // Where the vector begins at a cache line, chunks do too.
  const uint64_t unit = element_size < line_bytes ? line_bytes / element_size : 1;
  const schedule::ChunkMap map(count, plan_->chunks, unit);
  for (uint32_t c = 0; c <= plan_->chunks; ++c) begin_[c] = map.begin(c) * element_size;
  place(EvenChunks{element_size, begin_});
}

void Binding::bind(const Extents& extents) {
  count_ = ~uint64_t{0};
  place(extents);
}

template <class Chunks>
void Binding::place(const Chunks& lie) {
  element_size_ = lie.element_size;
  element_shift_ = std::has_single_bit(element_size_) ? std::countr_zero(element_size_) : -1;
  const uint32_t chunks = plan_->chunks;

  scratch_bytes_ = 0;
  const auto grow = [&](uint64_t bytes) {
    scratch_bytes_ += (bytes + line_bytes - 1) / line_bytes * line_bytes;
  };
  for (size_t row = 0; row < rows_.size(); ++row) {
    rows_[row] = scratch_bytes_;
    grow(lie.bytes(plan_->rows[row].begin, plan_->rows[row].end));
  }
  work_offset_ = scratch_bytes_;
  uint64_t work_bytes = 0;
  for (size_t i = 0; i < work_.size(); ++i) {
    work_[i] = work_bytes;
    work_bytes += lie.bytes(plan_->work[i], plan_->work[i] + 1);
  }
  grow(work_bytes);

  const auto offset = [&](Memory memory, uint32_t chunk) {
    switch (memory) {
      case Memory::input:
        return lie.input(chunk);
      case Memory::output:
        return lie.output(chunk);
      case Memory::work:
        return work_[chunk];
      case Memory::scratch:
        break;
    }
    const uint32_t row = chunk / chunks;
    return rows_[row] + lie.bytes(plan_->rows[row].begin, chunk % chunks);
  };
  const auto put = [&](const Record& record) {
    // The size is that of the vector's chunks that the range stands for.
    const bool sends = record.verb == Verb::send;
    const Memory memory = sends ? record.from_memory : record.to_memory;
    uint32_t first = sends ? record.from : record.to;
    if (memory == Memory::scratch) first %= chunks;
    if (memory == Memory::work) first = plan_->work[first];
    BoundRecord result;
    result.bytes = lie.bytes(first, first + record.chunks);
    if (!sends) result.to = offset(record.to_memory, record.to);
    const bool has_from = record.verb != Verb::recv && record.verb != Verb::reduce;
    if (has_from) result.from = offset(record.from_memory, record.from);
    return result;
  };
  const auto put_all = [&](const std::vector<Record>& records, std::vector<BoundRecord>& places) {
    bool begun = false;  // the current message
    for (size_t i = 0; i < records.size(); ++i) {
      const Record& record = records[i];
      places[i] = put(record);
      if (record.verb == Verb::copy || record.verb == Verb::reduce) continue;
      begun = begun && record.joined != 0;
      places[i].messages = !begun && places[i].bytes != 0;
      begun = begun || places[i].bytes != 0;
    }
  };
  put_all(plan_->outgoing, outgoing_);
  put_all(plan_->incoming, incoming_);
  for (size_t i = 0; i < operands_.size(); ++i) {
    operands_[i] = offset(plan_->operands[i].memory, plan_->operands[i].chunk);
  }
}

}  // namespace tutti::plan
