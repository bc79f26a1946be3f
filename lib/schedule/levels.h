// Which promises of the numerics contract an algorithm holds: derived from proofs, never stated.
#pragma once

#include "lib/schedule/algorithm.h"
#include "tutti/tutti.h"

namespace tutti::schedule {

// Of sums that round; arithmetic that knows no order holds every level with any sound algorithm.
struct Levels {
  bool fast = false;       // sound: the same bits on all ranks
  bool layout = false;     // one tree for all elements
  bool canonical = false;  // with folds of that bracketing, the canonical tree
  bool exact = false;      // every result is one fold of all its operands

  bool hold(tutti_level level) const;
};

// For calls of this shape; shape.rank and shape.bracketing are ignored.
Levels derive_levels(const Algorithm& algorithm, Shape shape);

// The same, derived once in the life of the process. Any thread.
Levels levels_of(const Algorithm& algorithm, const Shape& shape);

// How folds are bracketed at a level.
constexpr Bracketing bracketing_of(tutti_level level) {
  return level == TUTTI_LEVEL_CANONICAL ? Bracketing::canonical : Bracketing::left;
}

}  // namespace tutti::schedule
