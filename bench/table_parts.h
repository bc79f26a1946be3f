// What the tables have in common.
#pragma once

#include <string>
#include <vector>

#include "bench/grid.h"
#include "bench/result.h"

namespace tutti::bench {

// "float32 sum, 64 KiB": the label of a row; the type only if there are several.
std::string row_text(const std::vector<Result>& results, const Result& r);
// The call, the ranks and the memory: one line.
std::string heading(const std::vector<Result>& results);
// Sentences of the footer; "" where there is nothing to say.
std::string about_machine(const std::vector<Result>& results);
std::string about_checks(const std::vector<Result>& results);
std::string about_limit(const std::vector<Result>& results);

// For vectors on GPUs: columns for one result per row, null if there is none; an ending of the
// heading; sentences of the footer.
std::vector<Column> gpu_columns(const std::vector<const Result*>& best);
std::string gpu_heading(const Result& r);
std::string about_gpu_limit(const Result& r);
std::string about_gpu(const Result& r);

}  // namespace tutti::bench
