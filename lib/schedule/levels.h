// Which levels of the numerics contract an algorithm holds: derived from proofs, never claimed.
#pragma once

#include "lib/schedule/algorithm.h"
#include "tutti/tutti.h"

namespace tutti::schedule {

// For sums that round. Arithmetic that does not depend on order holds every level with any sound
// algorithm.
struct Levels {
  bool fast = false;       // sound: the same bits on all ranks
  bool layout = false;     // one tree for all elements
  bool canonical = false;  // the canonical tree, if folds have canonical bracketing
  bool exact = false;      // every result is one fold of all its operands

  bool hold(tutti_level level) const;
};

// For calls of this shape; shape.rank and shape.bracketing are ignored.
Levels derive_levels(const Algorithm& algorithm, Shape shape);

// The same, derived once per process and shape. Any thread.
Levels levels_of(const Algorithm& algorithm, const Shape& shape);

// How folds are bracketed at a level.
constexpr Bracketing bracketing_of(tutti_level level) {
  return level == TUTTI_LEVEL_CANONICAL ? Bracketing::canonical : Bracketing::left;
}

}  // namespace tutti::schedule
