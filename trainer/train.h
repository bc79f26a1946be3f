// A rank's run: joins the others, trains, reports.
#pragma once

#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/data/data.h"

namespace tutti::train {

// `arguments`: the command line, for the servers' log. `prepared`: prepare() has been called for
// all ranks; if not, rank 0 calls it. Throws BadInput, on the ranks that need say nothing without a
// text. Returns the exit status: 0, 1 if the run has diverged, 128 + SIGINT if it was interrupted;
// rank 0 has said so.
int train(const Options& options, const std::vector<std::string>& arguments, bool prepared);

}  // namespace tutti::train
