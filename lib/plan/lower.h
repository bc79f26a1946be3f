// From the steps of a rank to its plan. Three rewrites: an output chunk that is not written yet
// reads from the input; reduces are fused (a left fold over buffered operands is one n-ary reduce,
// a receive that is reduced at once is a receive with reduction); program order becomes how far
// each lane waits for the other.
#pragma once

#include "algorithms/algorithm.h"
#include "lib/plan/plan.h"

namespace tutti::plan {

// What `algorithm` says for the rank of `shape`. The schedule must be one that the prover accepts.
Plan lower(const Algorithm& algorithm, const schedule::Shape& shape);

}  // namespace tutti::plan
