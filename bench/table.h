// Results as tables.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/result.h"

namespace tutti::bench {

// All results of one transport: the fastest algorithm of each size beside the limit, then the time
// of every algorithm, then what `auto` chose, what could not run, and a glossary.
std::string render_sizes(const std::vector<Result>& results, size_t width);

// The whole gradient exchange of a model, one line per algorithm.
std::string render_workload(const std::vector<Result>& results, size_t width);

}  // namespace tutti::bench
