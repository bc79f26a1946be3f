// The command line of tutti-train.
#pragma once

#include <string>
#include <vector>

#include "trainer/common/options.h"

namespace tutti::train {

// `arguments`: the program's name first. Throws BadInput with one sentence; prints the help and
// ends the program if asked to. Checks everything that can be checked without a file or another
// rank; fills in defaults that depend on other options.
Options parse_options(std::vector<std::string> arguments);

}  // namespace tutti::train
