// Texts that come from elsewhere and are shown to people.
#pragma once

#include <algorithm>
#include <string>

namespace tutti {

// A terminal would obey it.
inline bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

// The text with spaces for what a terminal would obey.
inline std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

}  // namespace tutti
