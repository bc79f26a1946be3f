// What each rank of a schedule does: where ranks share cores, the work of all of them decides how
// long a call takes, not only that of the busiest.
#pragma once

#include <vector>

#include "lib/schedule/algorithm.h"

namespace tutti::schedule {

// Of one rank. What is sent and what is received counts half, so that the sum over all ranks is
// what passes through slots or sockets, and half of what is copied besides.
struct Work {
  double pieces = 0;   // ranges of messages
  double moved = 0;    // in buffers
  double reduced = 0;  // in buffers
};

// Of all ranks, by rank. Folds are bracketed from the left. Derived from the schedule, once for
// each shape; shape.rank is ignored. Any thread.
const std::vector<Work>& work_of(const Algorithm& algorithm, const Shape& shape);

}  // namespace tutti::schedule
