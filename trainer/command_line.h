// The command line of tutti-train.
#pragma once

#include <string>
#include <vector>

#include "trainer/common/options.h"

namespace tutti::train {

// `arguments`: the program's name first. Throws BadInput with one sentence; prints the help and
// ends the program where that is asked for. Everything is checked that can be without opening a
// file or asking a rank; defaults that depend on other options are filled in.
Options parse_options(std::vector<std::string> arguments);

}  // namespace tutti::train
