#include "bench/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tutti::bench {
namespace {

constexpr size_t bar_cells = 30;

}  // namespace

size_t screen_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int asked = columns ? std::atoi(columns) : 0;
  return asked >= 40 ? size_t(asked) : 120;
}

void show_progress(double fraction, const std::string& what) {
  if (!isatty(STDERR_FILENO)) return;
  if (fraction >= 1) {
    std::fputs("\r\033[K", stderr);
    return;
  }
  const auto full = std::min(bar_cells, size_t(fraction * double(bar_cells)));
  const std::string line = fmt::format("\r\033[K[{}{}] {:3.0f} %  {}", std::string(full, '#'),
                                       std::string(bar_cells - full, '.'), 100 * fraction, what);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace tutti::bench
