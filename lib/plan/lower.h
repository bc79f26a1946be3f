// From the steps of a rank to its plan, in three rewrites. First, a read of an output chunk that is
// not written yet becomes a read of the input, and output that the rank does not get becomes
// working memory. Second, reduces are fused: a fold over buffered operands in the bracketing of the
// shape becomes one n-ary reduce, and a receive that is reduced at once a receive with reduction.
// Third, program order becomes how far each lane waits for the other.
#pragma once

#include "lib/plan/plan.h"
#include "lib/schedule/algorithm.h"

namespace tutti::plan {

// How the chunks of a call lie.
enum class Chunks : uint8_t {
  together,   // neighbours in the vector are neighbours in memory
  scattered,  // at arbitrary places (Binding::bind(Extents)): one chunk per record
  // Where only the link may touch them: one chunk per record, so that both ends of a message cut it
  // alike; what a rank gets of its own input is copied by the caller. For schedules that only move.
  out_of_reach,
};

// The plan of `algorithm` for the rank of `shape`. The prover must accept the schedule.
Plan lower(const Algorithm& algorithm, const schedule::Shape& shape,
           Chunks chunks = Chunks::together);

}  // namespace tutti::plan
