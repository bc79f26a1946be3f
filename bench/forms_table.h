// The tables of --nonblocking, --persistent and --vary-counts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/result.h"

namespace tutti::bench {

// All results of one transport, all of the same form.
std::string render_nonblocking(const std::vector<Result>& results, size_t width);
std::string render_persistent(const std::vector<Result>& results, size_t width);
std::string render_varied(const std::vector<Result>& results, size_t width);

}  // namespace tutti::bench
