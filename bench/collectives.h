// The collectives that are measured, one row each: how long their buffers are, what must come out,
// and how bandwidth is counted. Knows nothing of the library but the names of types and operators:
// the ranks of other libraries are checked by the same rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/oracle.h"

namespace tutti::bench {

// One rank in one call.
struct Place {
  int rank;
  int nranks;
  int root;      // 0 where there is none
  size_t count;  // elements of the vector, or of one block
  bool at_root() const { return rank == root; }
};

// Elements of a rank's input and output.
struct Lengths {
  size_t send;
  size_t recv;
};

// Where the input is in a call in place.
enum class InPlace {
  never,      // there is no such call
  input,      // at the begin of the output
  own_block,  // at the rank's own block of the output
  output,     // where it always is; its root block is also the output
  always,     // there is one buffer only
};

// The output of a call, to be checked.
struct Outcome {
  const Oracle& oracle;
  Place place;
  const unsigned char* recv;
  size_t element;  // bytes

  // Wrong elements: the reduction of the first `ranks` ranks, from element `begin` of their inputs.
  uint64_t reduced(int ranks, size_t begin = 0) const;
  // Wrong elements of the `block`-th block, which must be `from`'s input from element `begin` on.
  uint64_t copied(int from, size_t begin, int block = 0) const;
  // Wrong elements of all blocks, each of which must be one rank's input from element `begin` on.
  uint64_t collected(size_t begin) const;
};

struct Collective {
  const char* name;
  const char* about;     // its input and output, one sentence
  bool sized = true;     // whether it moves data
  bool reduces = false;  // whether an operator matters
  bool rooted = false;
  bool blocks = false;  // the longer buffer has a block for every rank
  int least_ranks = 1;
  InPlace in_place = InPlace::never;
  // busbw / algbw, as nccl-tests defines it, and how it is written.
  double (*factor)(int nranks) = [](int) { return 1.0; };
  const char* factor_text = "1";
  Lengths (*lengths)(const Place& place);
  uint64_t (*wrong)(const Outcome& outcome);

  // Elements of the longer buffer of any rank.
  size_t longest(int nranks, size_t count) const {
    return sized ? blocks ? size_t(nranks) * count : count : 0;
  }
  // The count with at most `elements` in the longer buffer; at least one where there are any.
  size_t count_within(int nranks, size_t elements) const;
  // The factor as a reader can check it: " x 2(n-1)/n = 1.50"; "" where it is 1.
  std::string factor_shown(int nranks) const;
};

// All collectives.
const std::vector<Collective>& collectives();
// Throws BadInput with the names that are allowed.
const Collective& find_collective(const std::string& name);

}  // namespace tutti::bench
