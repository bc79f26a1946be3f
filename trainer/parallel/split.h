// How ranks divide the layers of a model (tensor parallelism), and which part of a parameter a rank
// holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/data/data.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

// The ranks that share the work of each layer. Must outlive what is made with it.
struct Group {
  const communicator* comm = nullptr;  // null: one rank
  int rank = 0;
  int size = 1;
  tutti_call_config sums = TUTTI_CALL_CONFIG_INIT;  // how allreduces are called
  bool streams = false;  // collectives of tensors on a GPU can be stream-ordered
};

struct Split {
  Group group;
  bool sequence = false;        // also the operations in between (sequence parallelism)
  std::string conv = "output";  // of a convolution: output or input channels, or strips
  int64_t chunk = 1 << 20;      // bytes that a recurrent layer processes at a time
};

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

}  // namespace tutti::train
