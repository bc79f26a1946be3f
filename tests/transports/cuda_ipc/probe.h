// How probes answer: a line each.
#pragma once

#include <cstdarg>
#include <cstdio>

namespace tutti::testing {

[[gnu::format(printf, 1, 2)]] inline void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::printf("probe: ");
  std::vprintf(format, arguments);
  std::printf("\n");
  va_end(arguments);
  std::fflush(stdout);
}

}  // namespace tutti::testing
