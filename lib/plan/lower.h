// From the steps of a rank to its plan. Three rewrites: an output chunk that is not written yet
// reads from the input, and output that the rank does not get is memory to work in; reduces are
// fused (a fold over buffered operands in the bracketing of the shape is one n-ary reduce, a
// receive that is reduced at once is a receive with reduction); program order becomes how far each
// lane waits for the other.
#pragma once

#include "algorithms/algorithm.h"
#include "lib/plan/plan.h"

namespace tutti::plan {

// What `algorithm` says for the rank of `shape`. The schedule must be one that the prover accepts.
// `scattered`: for calls whose chunks lie anyhow (Binding::bind(Extents)), one chunk a record.
Plan lower(const Algorithm& algorithm, const schedule::Shape& shape, bool scattered = false);

}  // namespace tutti::plan
