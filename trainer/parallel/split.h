// How ranks divide the layers of a model (tensor parallelism), which part of a parameter a rank
// holds, and where it lies in the rank's flat vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/data/data.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

// What a rank sends.
struct Volume {
  double bytes = 0;
  double messages = 0;
  Volume& operator+=(const Volume& other) {
    bytes += other.bytes;
    messages += other.messages;
    return *this;
  }
  bool operator==(const Volume&) const = default;
};
// What it has sent to some others, by the counters and by the formula (of the busiest of them; NaN:
// there is none), and how long it has waited for them, where that is asked for.
struct Traffic {
  Volume counted, formula;
  double seconds = 0;
  Traffic& operator+=(const Traffic& other) {
    counted += other.counted;
    formula += other.formula;
    seconds += other.seconds;
    return *this;
  }
};

// The calls of ranks that share layers, for the formulas of what they send.
struct GroupCall {
  enum class Kind { allreduce, allgather, reduce_scatter, message };
  Kind kind = Kind::allreduce;
  size_t count = 0;  // of all ranks' elements; of a message's
  tutti_dtype dtype = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
};
struct GroupCalls {
  std::vector<GroupCall> calls;
  double seconds = 0;  // that they took
};

// The ranks that share the work of each layer. Must outlive what is made with it.
struct Group {
  const communicator* comm = nullptr;  // null: one rank
  int rank = 0;
  int size = 1;
  tutti_call_config sums = TUTTI_CALL_CONFIG_INIT;  // how allreduces are called
  bool streams = false;        // collectives of tensors on a GPU can be stream-ordered
  GroupCalls* made = nullptr;  // gets every call; null: they are not counted
};

struct Split {
  Group group;
  bool sequence = false;        // also the operations in between (sequence parallelism)
  std::string conv = "output";  // of a convolution: output or input channels, or strips
  int64_t chunk = 1 << 20;      // bytes that a recurrent layer processes at a time
};

inline const Split undivided;

inline Split split_of(const Options& o, const Group& group) {
  Split split;
  split.group = group;
  split.sequence = o.sequence_parallel;
  split.conv = o.conv_split;
  if (o.rnn_chunk || o.tp > 1) split.chunk = o.rnn_chunk.value_or(8);
  return split;
}

// Elements [begin, end) of a dimension.
struct Span {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

// A rank's part where `total` is divided evenly.
inline Span part_of(int64_t total, int ranks, int rank) {
  return {cut(total, ranks, rank), cut(total, ranks, rank + 1)};
}

// The part of a parameter that a rank holds: these spans of one dimension, one after the other.
struct Division {
  int64_t dimension = 0;
  int64_t whole = 0;  // length of the dimension over all ranks
  std::vector<Span> spans;
  int64_t size() const {
    int64_t sum = 0;
    for (const Span& span : spans) sum += span.size();
    return sum;
  }
};

// ---------------------------------------------------------------- the flat vector

// A part of the flat vector; or some layers, [begin, end), of a model.
struct Range {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
// What both have; empty, at a's begin, where they have nothing in common.
inline Range overlap(const Range& a, const Range& b) {
  const Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.begin < both.end ? both : Range{a.begin, a.begin};
}
template <class Real>
std::span<Real> slice(std::span<Real> vector, const Range& range) {
  return vector.subspan(range.begin, range.size());
}

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  size_t offset = 0;  // in the flat vector
  size_t count = 0;
  Division division;    // the part held here of a parameter that ranks divide
  bool counted = true;  // in sums over the model: true on one of the ranks that hold it
  Range range() const { return {offset, offset + count}; }
};

// The parameters of a flat vector.
using Layout = std::vector<Parameter>;
// The elements of a layout whose parameters lie one after the other.
inline size_t elements_of(const Layout& layout) {
  return layout.empty() ? 0 : layout.back().offset + layout.back().count;
}

}  // namespace tutti::train
