#include "trainer/parallel/strips.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/common/error.h"

namespace tutti::train {

int64_t rows_after(int64_t height, const Window& w) {
  return (height + 2 * w.padding - w.kernel) / w.stride + 1;
}

Needed rows_under(const Span& output, int64_t height, const Window& w) {
  const int64_t begin = output.begin * w.stride - w.padding;
  const int64_t end = (output.end - 1) * w.stride - w.padding + w.kernel;
  return {{std::max<int64_t>(begin, 0), std::min(end, height)},
          std::max<int64_t>(-begin, 0),
          std::max<int64_t>(end - height, 0)};
}

void check_strips(const std::string& what, int64_t height, const Window& window, int ranks) {
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
