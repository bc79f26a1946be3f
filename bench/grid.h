// Text in columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::bench {

struct Column {
  std::string head;  // may break after '-' or at ' ' into two lines
  bool left = false;
  std::vector<std::string> cells;
};

// Heads, then one line per row. Columns that do not fit into `width` continue in further blocks,
// each of which repeats the first column.
std::string render_grid(const std::vector<Column>& columns, size_t width);

// Breaks a paragraph at spaces; its first line keeps its own indentation, further ones get
// `indent`.
std::string wrap(const std::string& text, size_t width, size_t indent);

// Three significant digits, thousands separated: 0.071, 5.30, 97.8, 6,970.
std::string format_us(double us);

}  // namespace tutti::bench
