// Results as a person reads them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/result.h"

namespace tutti::bench {

// All results of one transport: the fastest algorithm of each size beside the limit, then the time
// of every algorithm, then what `auto` took, what could not run, and what the words mean.
std::string render_sizes(const std::vector<Result>& results, size_t width);

// The whole gradient exchange of a model, one line an algorithm.
std::string render_workload(const std::vector<Result>& results, size_t width);

}  // namespace tutti::bench
