// What runs: a schedule of one rank lowered to flat records without pointers or sizes.
//
// A plan has two lanes: `outgoing` holds the sends, `incoming` everything else. Each is executed in
// order, independently of the other; where a record conflicts with the other lane, it says how far
// that lane must be. Sizes are symbolic (chunks), so one plan serves every count; a Binding turns
// chunks into bytes for one count and element size, and is kept until a call has another count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/status.h"
#include "lib/schedule/schedule.h"

namespace tutti::plan {

using schedule::Side;

// The caller's input and output, and the plan's own memory: scratch has the rows that the schedule
// asked for, work stands for output that the rank does not get.
enum class Memory : uint8_t { input, output, scratch, work };

enum class Verb : uint8_t { send, recv, recv_reduce, copy, reduce };

struct Record {
  Verb verb = Verb::send;
  Side side = Side::left;  // recv_reduce: where the incoming operand stands
  Memory to_memory = Memory::output;
  Memory from_memory = Memory::output;
  uint32_t peer = 0;
  uint32_t to = 0;    // first chunk; in work: index in Plan::work
  uint32_t from = 0;  // the same; of a reduce: its first operand in Plan::operands
  uint32_t chunks = 0;
  uint32_t wait = 0;      // how many records of the other lane must be done before this one
  uint16_t follow = 0;    // 1: the last of those is on the same range; this may keep up with it
  uint16_t joined = 0;    // 1: continues the message of the record before it in its stream
  uint32_t operands = 0;  // of a reduce
};
static_assert(sizeof(Record) == 32);

// An operand of an n-ary reduce.
struct Operand {
  Memory memory = Memory::output;
  uint32_t chunk = 0;  // in work: index in Plan::work
};

// The used part of a scratch row, in chunks: only that gets memory.
struct Row {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Plan {
  uint32_t chunks = 1;
  std::vector<Row> rows;
  std::vector<uint32_t> work;  // the chunks of the vector that have a place in work, ascending
  std::vector<Record> outgoing;
  std::vector<Record> incoming;
  std::vector<Operand> operands;
  uint32_t most_operands = 0;  // of any reduce

  size_t bytes() const;  // of memory that the plan takes
};

// Byte offsets into the memory of each side.
struct BoundRecord {
  uint64_t to = 0;
  uint64_t from = 0;
  uint64_t bytes = 0;
  uint64_t messages = 0;  // 1: the first of a message that is not empty
};

// Where the chunks of a call of blocks lie, in bytes, as far as one rank knows. Its vectors have an
// entry per rank, also where a chunk goes from each rank to each.
class Extents {
 public:
  uint32_t element_size = 1;
  uint32_t rank = 0;
  // Chunk i * nranks + j goes from rank i to rank j; else chunk i is rank i's.
  bool from_each_to_each = false;
  // All chunks have equal_bytes bytes, also those that this rank only passes on.
  bool equal = false;
  uint64_t equal_bytes = 0;
  // Else the bytes that this rank sends to, and receives from, each rank.
  std::vector<uint64_t> sent, received;
  // With a chunk per rank: where each begins in the vector, and the vector's end.
  std::vector<uint64_t> begin;
  // Where the block for, or from, each rank lies in the caller's buffers; empty where a buffer has
  // one block only, at its beginning.
  std::vector<uint64_t> input_at, output_at;

  uint64_t input(uint32_t chunk) const {
    return input_at.empty() ? 0 : input_at[from_each_to_each ? chunk % nranks() : chunk];
  }
  uint64_t output(uint32_t chunk) const {
    return output_at.empty() ? 0 : output_at[from_each_to_each ? chunk / nranks() : chunk];
  }
  // Of the chunks from `first` up to `end`.
  uint64_t bytes(uint32_t first, uint32_t end) const {
    if (equal) return (end - first) * equal_bytes;
    if (!from_each_to_each) return begin[end] - begin[first];
    uint64_t all = 0;
    for (uint32_t chunk = first; chunk < end; ++chunk) {
      const uint32_t from = chunk / nranks(), to = chunk % nranks();
      all += from == rank ? sent[to] : to == rank ? received[from] : 0;
    }
    return all;
  }

 private:
  uint32_t nranks() const { return uint32_t(sent.size()); }
};

// A plan for one count and element size. bind() allocates the first time, then never again.
class Binding {
 public:
  explicit Binding(const Plan& plan);
  // `count` elements in chunks of nearly the same length, in the buffers as in the vector.
  void bind(uint64_t count, uint32_t element_size);
  bool bound_to(uint64_t count, uint32_t element_size) const {
    return count == count_ && element_size == element_size_;
  }
  // For chunks at arbitrary places. Bound to no count.
  void bind(const Extents& extents);

  const Plan& plan() const { return *plan_; }
  uint32_t element_size() const { return element_size_; }
  int element_shift() const { return element_shift_; }       // log2 of that, -1: no power of two
  uint64_t scratch_bytes() const { return scratch_bytes_; }  // for scratch and work together
  uint64_t work_offset() const { return work_offset_; }      // of work in these bytes
  const BoundRecord* outgoing() const { return outgoing_.data(); }
  const BoundRecord* incoming() const { return incoming_.data(); }
  const uint64_t* operands() const { return operands_.data(); }  // offsets

 private:
  // `lie`: where the chunks lie, with the interface of Extents.
  template <class Chunks>
  void place(const Chunks& lie);

  const Plan* plan_;
  uint64_t count_ = ~uint64_t{0};
  uint32_t element_size_ = 0;
  int element_shift_ = 0;
  uint64_t scratch_bytes_ = 0, work_offset_ = 0;
  std::vector<uint64_t> begin_;  // of the chunks of an even division
  std::vector<uint64_t> rows_;   // offset of each scratch row's used part
  std::vector<uint64_t> work_;   // offset of each of the plan's work chunks
  std::vector<BoundRecord> outgoing_, incoming_;
  std::vector<uint64_t> operands_;
};

}  // namespace tutti::plan
