// What the ranks of a schedule do: where they share cores, the work of all of them together decides
// how long a call takes, and how much of it must be done one after the other.
#pragma once

#include "lib/schedule/algorithm.h"

namespace tutti::schedule {

// A send and a receive count half each, so that the sum over all ranks has each transfer once; a
// copy within a rank counts half.
struct Work {
  double pieces = 0;   // ranges of messages
  double moved = 0;    // in buffers
  double reduced = 0;  // in buffers
};

struct WorkOfAll {
  Work mean;     // of a rank
  Work busiest;  // the most of each that a rank has
  // The largest transfer of each round, added up over the rounds; half, as the receiver takes it
  // while the sender goes on. Of more than 64 ranks as if there were 64. No pieces.
  Work span;
};

// Folds are bracketed from the left. Derived from the schedule, once for each shape; shape.rank is
// ignored. Any thread.
const WorkOfAll& work_of(const Algorithm& algorithm, const Shape& shape);

}  // namespace tutti::schedule
