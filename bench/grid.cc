#include "bench/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "bench/sizes.h"

namespace tutti::bench {
namespace {

constexpr size_t gap = 2;

// Characters on the screen: all but the continuation bytes of UTF-8.
size_t width_of(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string pad(const std::string& text, size_t width, bool left) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return left ? text + space : space + text;
}

struct Head {
  std::string upper, lower;
};

// The line break that makes the column narrowest, if any does.
Head break_head(const Column& column) {
  size_t cells = 0;
  for (const auto& cell : column.cells) cells = std::max(cells, width_of(cell));
  Head best{"", column.head};
  size_t narrowest = width_of(column.head);
  for (size_t i = 1; i + 1 < column.head.size(); ++i) {
    const char c = column.head[i];
    if (c != '-' && c != ' ') continue;
    Head head{column.head.substr(0, c == '-' ? i + 1 : i), column.head.substr(i + 1)};
    const size_t wide = std::max(width_of(head.upper), width_of(head.lower));
    if (narrowest > cells && wide < narrowest) best = head, narrowest = wide;
  }
  return best;
}

struct Shaped {
  const Column* column;
  Head head;
  size_t width;
};

Shaped shape(const Column& column) {
  Shaped shaped{&column, break_head(column), 0};
  shaped.width = std::max(width_of(shaped.head.upper), width_of(shaped.head.lower));
  for (const auto& cell : column.cells) shaped.width = std::max(shaped.width, width_of(cell));
  return shaped;
}

void append_line(std::string& out, const std::string& line) {
  const size_t end = line.find_last_not_of(' ');
  out += line.substr(0, end == std::string::npos ? 0 : end + 1) + "\n";
}

std::string render_block(const std::vector<Shaped>& block) {
  const std::string space(gap, ' ');
  std::string out, upper, lower;
  bool two_lines = false;
  for (const Shaped& s : block) {
    upper += space + pad(s.head.upper, s.width, s.column->left);
    lower += space + pad(s.head.lower, s.width, s.column->left);
    two_lines |= !s.head.upper.empty();
  }
  if (two_lines) append_line(out, upper);
  append_line(out, lower);
  for (size_t row = 0; row < block.front().column->cells.size(); ++row) {
    std::string line;
    for (const Shaped& s : block)
      line += space + pad(s.column->cells[row], s.width, s.column->left);
    append_line(out, line);
  }
  return out;
}

}  // namespace

std::string render_grid(const std::vector<Column>& columns, size_t width) {
  if (columns.empty()) return "";
  const Shaped first = shape(columns.front());
  std::string out;
  std::vector<Shaped> block{first};
  size_t used = gap + first.width;
  for (size_t i = 1; i < columns.size(); ++i) {
    const Shaped next = shape(columns[i]);
    if (used + gap + next.width > width && block.size() > 1) {
      out += render_block(block) + "\n";
      block = {first};
      used = gap + first.width;
    }
    block.push_back(next);
    used += gap + next.width;
  }
  return out + render_block(block);
}

std::string wrap(const std::string& text, size_t width, size_t indent) {
  std::istringstream words(text);
  std::string out, line(std::min(text.find_first_not_of(' '), text.size()), ' ');
  bool begun = false;
  for (std::string word; words >> word;) {
    if (begun && width_of(line) + 1 + width_of(word) > width) {
      out += line + "\n";
      line = std::string(indent, ' ') + word;
    } else {
      line += (begun ? " " : "") + word;
    }
    begun = true;
  }
  return out + line + "\n";
}

std::string format_us(double us) {
  if (us < 1) return fmt::format("{:.3f}", us);
  if (us < 9.995) return fmt::format("{:.2f}", us);
  if (us < 99.95) return fmt::format("{:.1f}", us);
  return format_thousands(static_cast<unsigned long long>(us + 0.5));
}

}  // namespace tutti::bench
