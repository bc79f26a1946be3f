// From the steps of a rank to its plan. Three rewrites: an output chunk that is not written yet
// reads from the input, and output that the rank does not get is memory to work in; reduces are
// fused (a fold over buffered operands in the bracketing of the shape is one n-ary reduce, a
// receive that is reduced at once is a receive with reduction); program order becomes how far each
// lane waits for the other.
#pragma once

#include "lib/plan/plan.h"
#include "lib/schedule/algorithm.h"

namespace tutti::plan {

// How the chunks of a call lie.
enum class Chunks : uint8_t {
  together,   // neighbours in the vector are so in memory
  scattered,  // anyhow (Binding::bind(Extents)): one chunk a record
  // Where nobody but the link may touch them: one chunk a record, so that both ends of a message
  // cut it alike; what a rank gets of its own its caller brings. For schedules that only move.
  out_of_reach,
};

// What `algorithm` says for the rank of `shape`. The schedule must be one that the prover accepts.
Plan lower(const Algorithm& algorithm, const schedule::Shape& shape,
           Chunks chunks = Chunks::together);

}  // namespace tutti::plan
