// Pictures divided into strips of rows: which rows of its input a rank needs for its rows of a
// convolution's output. Pure.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "trainer/common/error.h"
#include "trainer/parallel/split.h"

namespace tutti::train {

struct Window {
  int64_t kernel = 1, stride = 1, padding = 0;
};

inline int64_t rows_after(int64_t height, const Window& w) {
  return (height + 2 * w.padding - w.kernel) / w.stride + 1;
}

// The input rows that the output's rows read, without padding, and how many rows of padding there
// are above and below.
struct Needed {
  Span rows;
  int64_t above = 0, below = 0;
};
inline Needed rows_under(const Span& output, int64_t height, const Window& w) {
  const int64_t begin = output.begin * w.stride - w.padding;
  const int64_t end = (output.end - 1) * w.stride - w.padding + w.kernel;
  return {{std::max<int64_t>(begin, 0), std::min(end, height)},
          std::max<int64_t>(-begin, 0),
          std::max<int64_t>(end - height, 0)};
}

// Throws BadInput if one of the ranks that divide pictures of this height needs rows beyond its own
// strip and the strips next to it, or if a strip is empty. `what` has the window: "a pooling".
inline void check_strips(const std::string& what, int64_t height, const Window& window, int ranks) {
  const int64_t out = rows_after(height, window);
  if (height < ranks || out < ranks)
    throw BadInput(
        fmt::format("--conv-split strips: {} rows before and {} after {} cannot be divided among "
                    "--tp {} ranks",
                    height, out, what, ranks));
  for (int r = 0; r < ranks; ++r) {
    const Span need = rows_under(part_of(out, ranks, r), height, window).rows;
    const Span own = part_of(height, ranks, r);
    const Span near = {part_of(height, ranks, std::max(r - 1, 0)).begin,
                       part_of(height, ranks, std::min(r + 1, ranks - 1)).end};
    if (need.begin < near.begin || need.end > near.end)
      throw BadInput(fmt::format(
          "--conv-split strips: {} needs {} rows of its neighbours, but strips of {} "
          "rows among --tp {} ranks are thinner",
          what, std::max(own.begin - need.begin, need.end - own.end), height / ranks, ranks));
  }
}

}  // namespace tutti::train
