// The command line of tutti-train.
#pragma once

#include <string>
#include <vector>

#include "trainer/common/options.h"

namespace tutti::train {

// `arguments`: the program's name first. In place of each --config FILE what that file has, before
// everything else: an option of the command line has the last word. Throws BadInput.
std::vector<std::string> with_config(const std::vector<std::string>& arguments);

// `arguments`: the program's name first, without --config. Throws BadInput with one sentence;
// prints the help and ends the program if asked to. Checks everything that can be checked without a
// file or another rank; fills in defaults that depend on other options.
Options parse_options(std::vector<std::string> arguments);

}  // namespace tutti::train
