// What the tables have in common.
#pragma once

#include <string>
#include <vector>

#include "bench/result.h"

namespace tutti::bench {

// "float32 sum, 64 KiB": what a row is about; the type only where there are several.
std::string row_text(const std::vector<Result>& results, const Result& r);
// What was called, by whom and on what: one line.
std::string heading(const std::vector<Result>& results);
// Sentences of the footer; "" where there is nothing to say.
std::string about_machine(const std::vector<Result>& results);
std::string about_checks(const std::vector<Result>& results);
std::string about_limit(const std::vector<Result>& results);

}  // namespace tutti::bench
