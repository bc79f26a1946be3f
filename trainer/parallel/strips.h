// Pictures divided into strips of rows: which rows of its input a rank needs for its rows of a
// convolution's output. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/parallel/split.h"

namespace tutti::train {

struct Window {
  int64_t kernel = 1, stride = 1, padding = 0;
};

int64_t rows_after(int64_t height, const Window& window);

// The input rows that the output's rows read, without padding, and how many rows of padding there
// are above and below.
struct Needed {
  Span rows;
  int64_t above = 0, below = 0;
};
Needed rows_under(const Span& output, int64_t height, const Window& window);

// Throws BadInput if one of the ranks that divide pictures of this height needs rows beyond its own
// strip and the strips next to it, or if a strip is empty. `what` has the window: "a pooling".
void check_strips(const std::string& what, int64_t height, const Window& window, int ranks);

}  // namespace tutti::train
