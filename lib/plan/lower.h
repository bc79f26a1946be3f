// From the steps of a rank to its plan. Three rewrites: an output chunk that is not written yet reads
// from the input; a left fold over buffered operands becomes one n-ary reduce; program order becomes
// how far each lane waits for the other.
#pragma once

#include "algorithms/algorithm.h"
#include "lib/plan/plan.h"

namespace tutti::plan {

// `emit` is an algorithm's. The schedule must be one that the prover accepts.
Plan lower(void (*emit)(const schedule::Shape&, schedule::Sink&), const schedule::Shape& shape);

}  // namespace tutti::plan
