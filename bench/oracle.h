// Inputs whose reduction is known exactly, and the check of outputs. Knows nothing of the library
// but the names of types and operators: the expected result is folded here, in 64-bit integers,
// from the same values that the inputs are made of.
//
// An element's value depends on its rank and its index and is a small integer (complex numbers: two
// of them; pairs: and an index), chosen so that every partial result of every order is
// representable in the type; so the expected result is the same for any algorithm; only a mean may
// need rounding, and is rounded once. Values repeat with a prime period: a misplaced block is
// detected unless it is off by a multiple of the period, which no division of a vector into chunks
// or slots produces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::bench {

// The value of an element.
struct OracleValue {
  int64_t first = 0;
  int64_t second = 0;  // the imaginary part of a complex number, the index of a pair
};

class Oracle {
 public:
  static constexpr size_t period = 4093;
  static constexpr int most_ranks = 256;  // beyond, a sum of ones is not exact in bfloat16

  // The operator must be defined on the type, 1 <= nranks <= most_ranks.
  Oracle(tutti_dtype dtype, tutti_op op, int nranks, int rank);

  // Writes this rank's input.
  void fill(void* buffer, size_t count) const;
  // How many of the elements are not the reduction of all ranks' inputs.
  size_t wrong_results(const void* buffer, size_t count) const {
    return wrong_reduction(buffer, count, nranks_, 0);
  }
  // How many of the elements no longer hold this rank's input.
  size_t wrong_inputs(const void* buffer, size_t count) const {
    return wrong_copy(buffer, count, rank_, 0);
  }
  // How many are not the reduction of the first `ranks` ranks, from element `begin` of their
  // inputs.
  size_t wrong_reduction(const void* buffer, size_t count, int ranks, size_t begin) const;
  // How many are not the input of rank `from`, from its element `begin`.
  size_t wrong_copy(const void* buffer, size_t count, int from, size_t begin) const;

  // Whether the oracle supports the type and operator: all but accumulators and the program's own
  // types and operators.
  static bool knows(tutti_dtype dtype, tutti_op op);

  // The value that `rank` contributes at `index`, before it is stored as the type.
  static OracleValue value(tutti_dtype dtype, tutti_op op, int nranks, int rank, size_t index);

  // One period of a rank's input, or of the reduction of the first `ranks` ranks.
  using Pattern = std::vector<unsigned char>;
  const Pattern& input_of(int rank) const;
  const Pattern& reduction_of(int ranks) const;

 private:
  tutti_dtype dtype_;
  tutti_op op_;
  int nranks_, rank_;
  size_t element_;
  mutable std::vector<Pattern> inputs_;      // [rank]; empty until somebody needs it
  mutable std::vector<Pattern> reductions_;  // [ranks - 1]; likewise
};

// Writes a value as an element. Exact for what value() returns.
void store_element(tutti_dtype dtype, OracleValue value, void* out);

}  // namespace tutti::bench
