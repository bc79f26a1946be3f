// A collective call as the caller made it, its arguments checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/call/signature.h"
#include "lib/schedule/goal.h"
#include "tutti/tutti.h"

namespace tutti {

// Settings of one call, defaults filled in.
struct CallSettings {
  int64_t timeout_ms = 0;  // 0: the communicator's
  std::string_view algorithm;
  bool unfused = false;
  bool symmetric = false;
  tutti_level level = TUTTI_LEVEL_DEFAULT;  // the communicator's
};

// Lengths and places, in elements, of the blocks of a v form, by rank. Null counts: all blocks are
// equally long, one after the other; null places: one after the other. Without initial values,
// which would be felt in the calls that have none of this.
struct Blocks {
  const size_t* send_counts;
  const size_t* send_displs;
  const size_t* recv_counts;
  const size_t* recv_displs;
  // Of collectives of which a rank knows only the length of its own block.
  uint64_t own;
};

// What calls that are prepared alike have in common.
struct CallKey {
  uint64_t count = 0;    // elements of the vector, or of a block; of a v form of all known blocks
  uint64_t lengths = 0;  // of a v form: a digest of the lengths that all ranks know, never 0
  int32_t root = 0;
  Collective collective = Collective::allreduce;
  tutti_dtype dtype = TUTTI_INT8;
  tutti_op op = TUTTI_SUM;
  bool unfused = false;
  bool symmetric = false;  // of memory on GPUs
  tutti_level level = TUTTI_LEVEL_DEFAULT;
  Compound part_of = Compound::none;
  std::string_view algorithm;  // empty: chosen
  bool operator==(const CallKey&) const = default;
  // Whether they differ in their size only: in count and lengths.
  bool alike(CallKey other) const {
    if ((lengths != 0) != (other.lengths != 0)) return false;
    other.count = count;
    other.lengths = lengths;
    return *this == other;
  }
};

struct Call {
  CallKey key;
  const std::byte* input = nullptr;  // the rank's own block where it has only that
  std::byte* output = nullptr;     // the same; input == output only where schedules may be in place
  const Blocks* blocks = nullptr;  // of a v form
  bool lengths_agreed = false;     // both ends of each block know its length: none are compared
  // The output is not where the schedule may write: it is written elsewhere, then copied.
  bool output_aside = false;
  // The input is where the schedule writes: it is copied elsewhere first.
  bool input_aside = false;
  uint64_t aside_count = 0;  // elements that are copied then
  int64_t timeout_ms = 0;
};

// A call with the memory that it points to, as a function of the API makes it.
struct MadeCall {
  Call call;
  Blocks blocks;
  std::byte barrier[2];  // what a barrier moves
};

}  // namespace tutti
