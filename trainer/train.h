// A rank's run: joins the others, trains, reports.
#pragma once

#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/data/data.h"

namespace tutti::train {

// `arguments`: the command line, for the servers' log.
void train(const Options& options, const std::vector<std::string>& arguments);

}  // namespace tutti::train
