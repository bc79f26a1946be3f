// What the ranks of a schedule do, one by one: where they share cores, the work of all of them
// decides how long a call takes, not only that of the busiest.
#pragma once

#include <vector>

#include "lib/schedule/algorithm.h"

namespace tutti::schedule {

// Of one rank. Data is counted in buffers, as by Counter.
struct Work {
  double pieces = 0;    // of messages: ranges sent and received, each end half
  double copied = 0;    // sent, received, or copied; what is sent passes by somewhere
  double received = 0;  // and combined at once; not in `copied`
  double reduced = 0;   // all that is combined, also what is in `received`
};

// Of each rank from the root on; of many ranks, of some that lie equally far apart. Derived from
// the schedule, once for each shape; shape.rank is ignored. Any thread.
const std::vector<Work>& work_of(const Algorithm& algorithm, const Shape& shape);

}  // namespace tutti::schedule
