// A schedule as a picture: ranks across, rounds down. Between two rounds the bar of a rank shows
// its vector with a cell per chunk: the more contributions a chunk has, the stronger its colour. An
// arrow is a message in the colour of its chunks.
#pragma once

#include <string>

#include "lib/schedule/algorithm.h"

namespace tutti::schedule {

// A self-contained SVG. Meant for up to about 16 ranks; beyond that it is right but crowded.
std::string draw_svg(const Algorithm& algorithm, uint32_t nranks, uint32_t root = 0);

}  // namespace tutti::schedule
