// A rank's life: joins the others, trains, says what happened.
#pragma once

#include <string>
#include <vector>

#include "trainer/data.h"
#include "trainer/options.h"

namespace tutti::train {

// `arguments`: the command line, for the servers' log.
void train(const Options& options, const std::vector<std::string>& arguments);

}  // namespace tutti::train
