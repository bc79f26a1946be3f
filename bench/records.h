// Results as JSON and CSV.
#pragma once

#include <string>

#include "bench/result.h"

namespace tutti::bench {

// To four decimal places, as figures are written.
double rounded(double value);

// One object on one line, without the line's end.
std::string to_json(const Result& result);

std::string csv_head();
std::string to_csv(const Result& result);

}  // namespace tutti::bench
