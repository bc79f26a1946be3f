// The verdict as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "bench/builds/cells.h"
#include "bench/builds/verdict.h"

namespace tutti::bench::builds {

// A table for each state of the machine, with a line about all of its cells.
std::string to_text(const Verdict& verdict, const std::vector<Cell>& cells);

// One object per line.
std::string to_json(const Verdict& verdict, const std::vector<Cell>& cells, const Method& method);

}  // namespace tutti::bench::builds
