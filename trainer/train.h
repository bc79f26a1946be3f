// A rank's life: joins the others, trains, says what happened.
#pragma once

#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/data/data.h"

namespace tutti::train {

// `arguments`: the command line, for the servers' log.
void train(const Options& options, const std::vector<std::string>& arguments);

}  // namespace tutti::train
