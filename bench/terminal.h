// The screen.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::bench {

// Columns of what stdout is; 120 where it is no terminal.
size_t screen_width();

// A bar on stderr, if that is a terminal; fraction 1 removes it.
void show_progress(double fraction, const std::string& what);

}  // namespace tutti::bench
