#include "lib/schedule/draw.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "lib/schedule/prove.h"

namespace tutti::schedule {

namespace {

constexpr int left_margin = 70, right_margin = 30, top = 96, column_width = 92, row_height = 64;

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, args...);
  return text;
}

int x_of(uint32_t rank) { return left_margin + column_width / 2 + int(rank) * column_width; }
int y_of(uint32_t round) { return top + int(round) * row_height; }

// The hue says which chunks; grey is the whole vector.
std::string colour_of(const Transfer& transfer, uint32_t chunks) {
  if (transfer.end - transfer.begin == chunks) return "#44546a";
  const double middle = (transfer.begin + transfer.end - 1) / 2.0;
  return format("hsl(%d,72%%,42%%)", int(middle * 330 / chunks));
}

std::string chunks_text(const Transfer& transfer, uint32_t chunks) {
  if (transfer.end - transfer.begin == chunks) return "all";
  if (transfer.end - transfer.begin == 1) return std::to_string(transfer.begin);
  return std::to_string(transfer.begin) + "-" + std::to_string(transfer.end - 1);
}

// Opposite messages of a round bow to opposite sides, so that neither hides the other.
std::string arrow(const Transfer& transfer, uint32_t chunks) {
  const int x1 = x_of(transfer.from), x2 = x_of(transfer.to);
  const int y1 = y_of(transfer.round - 1) + 6, y2 = y_of(transfer.round) - 6;
  const int direction = x2 > x1 ? 1 : -1;
  const int start = x1 + 5 * direction, end = x2 - 3 * direction;
  // The label sits on the first third of the way, where arrows to other ranks have parted.
  const double t = 0.30;
  const int label_x = int(start + (end - start) * t), label_y = int(y1 + (y2 - y1) * t);
  const std::string colour = colour_of(transfer, chunks);
  std::string text = format(
      "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='%s' stroke-width='2'%s marker-end='url(#tip)'/>\n",
      start, y1, end, y2, colour.c_str(), transfer.reduces ? "" : " stroke-dasharray='6 3'");
  const std::string chunk = chunks_text(transfer, chunks);
  const int width = 8 + 7 * int(chunk.size());
  text += format("<rect x='%d' y='%d' width='%d' height='15' rx='4' fill='white' stroke='%s'/>\n",
                 label_x - width / 2, label_y - 8, width, colour.c_str());
  text += format("<text x='%d' y='%d' class='chunk' fill='%s'>%s</text>\n", label_x, label_y + 4,
                 colour.c_str(), chunk.c_str());
  return text;
}

}  // namespace

std::string draw_svg(const Algorithm& algorithm, uint32_t nranks, uint32_t root) {
  std::vector<Transfer> transfers;
  const Verdict verdict = prove(algorithm, nranks, root, &transfers);
  std::sort(transfers.begin(), transfers.end(), [](const Transfer& a, const Transfer& b) {
    return std::tie(a.round, a.from, a.to) < std::tie(b.round, b.from, b.to);
  });
  const int width = std::max(560, left_margin + right_margin + int(nranks) * column_width);
  const int height = y_of(verdict.rounds) + 76;

  std::string svg = format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
      "font-family='Helvetica, Arial, sans-serif'>\n",
      width, height, width, height);
  svg +=
      "<style>.rank{font-size:14px;font-weight:600;text-anchor:middle;fill:#222}"
      ".round{font-size:12px;fill:#777;text-anchor:end}.chunk{font-size:11px;text-anchor:middle}"
      ".title{font-size:18px;font-weight:700;fill:#111}.note{font-size:12px;fill:#555}</style>\n"
      "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
      "orient='auto'><path d='M0,0 L8,4 L0,8 z' fill='#444'/></marker></defs>\n";
  svg += format("<rect width='%d' height='%d' fill='white'/>\n", width, height);
  svg += format("<text x='16' y='28' class='title'>%s %s, %u ranks</text>\n",
                collective_name(algorithm.collective), algorithm.name, nranks);
  svg += format("<text x='16' y='48' class='note'>%u rounds with one port, %llu messages, the busiest "
                "rank sends %.3g vectors</text>\n",
                verdict.rounds, static_cast<unsigned long long>(verdict.messages),
                double(verdict.most_sent) / verdict.chunks);
  for (uint32_t rank = 0; rank < nranks; ++rank) {
    svg += format("<text x='%d' y='%d' class='rank'>%u</text>\n", x_of(rank), top - 14, rank);
    svg += format("<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#ccc' stroke-width='1'/>\n",
                  x_of(rank), top - 6, x_of(rank), y_of(verdict.rounds) + 8);
  }
  svg += format("<text x='%d' y='%d' class='round'>rank</text>\n", left_margin - 14, top - 14);
  for (uint32_t round = 1; round <= verdict.rounds; ++round) {
    svg += format("<text x='%d' y='%d' class='round'>round %u</text>\n", left_margin - 14,
                  (y_of(round - 1) + y_of(round)) / 2 + 4, round);
    svg += format("<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#eee'/>\n", left_margin - 8,
                  y_of(round), width - right_margin, y_of(round));
  }
  for (const Transfer& transfer : transfers) svg += arrow(transfer, verdict.chunks);
  svg += format("<text x='16' y='%d' class='note'>Labels and colours: which of the %u %s of the vector "
                "(grey: all of it).</text>\n",
                height - 36, verdict.chunks, verdict.chunks == 1 ? "chunk" : "chunks");
  svg += format("<text x='16' y='%d' class='note'>Solid: combined as it arrives. Dashed: stored, and "
                "where buffered, combined later.</text>\n", height - 18);
  return svg + "</svg>\n";
}

}  // namespace tutti::schedule
