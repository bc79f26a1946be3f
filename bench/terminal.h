// The screen.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::bench {

// Columns of stdout's terminal; 120 if it is none.
size_t screen_width();

// A progress bar on stderr, if that is a terminal; fraction 1 removes it.
void show_progress(double fraction, const std::string& what);

}  // namespace tutti::bench
