// A schedule as a picture: ranks across, rounds down, an arrow a message, coloured by its chunks.
#pragma once

#include <string>

#include "algorithms/algorithm.h"

namespace tutti::schedule {

// A self-contained SVG. Meant for up to a few dozen ranks; beyond that it is right but crowded.
std::string draw_svg(const Algorithm& algorithm, uint32_t nranks, uint32_t root = 0);

}  // namespace tutti::schedule
