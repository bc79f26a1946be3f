// Inputs whose reduction is known exactly, and the check of what came out. Knows nothing of the
// library but the names of types and operators: the expected result is folded here, in 64-bit
// integers, from the same values that the inputs are made of.
//
// An element's value depends on its rank and its index and is a small integer (complex numbers: two
// of them; pairs: and an index), chosen so that every partial result of every order is
// representable in the type; so the expected result is the same for any algorithm. Values repeat
// with a prime period: a block at a wrong place is seen unless it is a multiple of the period away,
// which no division of a vector into chunks or slots produces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::bench {

// What an element stands for.
struct OracleValue {
  int64_t first = 0;
  int64_t second = 0;  // the imaginary part of a complex number, the index of a pair
};

class Oracle {
 public:
  static constexpr size_t period = 4093;
  static constexpr int most_ranks = 256;  // beyond, a sum of ones is not exact in bfloat16

  // Whether it makes values of the type: of all but accumulators.
  static bool knows(tutti_dtype dtype);

  // The operator must be defined on the type, 1 <= nranks <= most_ranks.
  Oracle(tutti_dtype dtype, tutti_op op, int nranks, int rank);

  // Writes this rank's input.
  void fill(void* buffer, size_t count) const;
  // How many of the elements are not the result.
  size_t wrong_results(const void* buffer, size_t count) const;
  // How many of the elements are not this rank's input any more.
  size_t wrong_inputs(const void* buffer, size_t count) const;

  // The value that `rank` contributes at `index`, before it is stored as the type.
  static OracleValue value(tutti_dtype dtype, tutti_op op, int nranks, int rank, size_t index);

 private:
  size_t element_;
  std::vector<unsigned char> input_;     // one period
  std::vector<unsigned char> expected_;  // one period
};

// Writes a value as an element. Exact for what value() returns.
void store_element(tutti_dtype dtype, OracleValue value, void* out);

}  // namespace tutti::bench
