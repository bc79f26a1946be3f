// The run of every rank of `tutti-bench COLLECTIVE`.
#pragma once

#include "bench/options.h"
#include "bench/rank.h"
#include "bench/report.h"

namespace tutti::bench {

// Collective. Returns the number of wrong elements over all ranks; throws Failure. `report` gets
// the results; only rank 0 has one.
uint64_t run_session(const Options& options, const Rank& me, Report* report);

}  // namespace tutti::bench
