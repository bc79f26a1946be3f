#include "trainer/pipeline/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::train {
namespace {

const char letters[] = {'f', 'b', 'w'};
const char* const classes[] = {"forward", "backward", "weight"};

std::string label(const Action& a, bool chunks) {
  return fmt::format("{}{}", a.micro_batch, chunks ? std::string(1, char('a' + a.chunk)) : "");
}

bool has_chunks(const std::vector<std::vector<Slot>>& slots) {
  for (const auto& rank : slots)
    for (const Slot& b : rank)
      if (b.action.chunk > 0) return true;
  return false;
}

}  // namespace

std::string drawing_text(const PipelineRun& run, const PipelineShape& shape) {
  const bool chunks = has_chunks(run.slots);
  size_t width = 2;
  for (const auto& rank : run.slots)
    for (const Slot& b : rank) width = std::max(width, 1 + label(b.action, chunks).size());
  const std::string idle(width, '.'), more(width, '-');
  const int name = shape.widths.widest() > 1 ? 4 : 2;
  std::string text;
  for (size_t r = 0; r < run.slots.size(); ++r) {
    std::string line = fmt::format("stage {:<{}}", shape.widths.name(int(r)), name);
    double at = 0;
    for (const Slot& b : run.slots[r]) {
      for (; at < b.begin; ++at) line += " " + idle;
      line += fmt::format(" {:<{}}", letters[int(b.action.kind)] + label(b.action, chunks), width);
      for (++at; at < b.end; ++at) line += " " + more;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string drawing_svg(const std::vector<std::vector<Slot>>& slots, const PipelineShape& shape) {
  constexpr double width = 860, left = 70, lane = 24;
  double begin = INFINITY, end = -INFINITY;
  for (const auto& rank : slots)
    for (const Slot& b : rank) {
      begin = std::min(begin, b.begin);
      end = std::max(end, b.end);
    }
  if (!(begin < end)) return "<p>Nothing was recorded.</p>\n";
  const double scale = (width - left - 4) / (end - begin);
  const bool chunks = has_chunks(slots);
  std::string shapes;
  for (size_t r = 0; r < slots.size(); ++r) {
    const double top = 4 + lane * double(r);
    shapes += fmt::format("<text x=\"0\" y=\"{:.0f}\">stage {}</text>", top + 15,
                          shape.widths.name(int(r)));
    for (const Slot& b : slots[r]) {
      const double x = left + (b.begin - begin) * scale, w = (b.end - b.begin) * scale;
      const std::string number = label(b.action, chunks);
      shapes += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"20\" class=\"{}{}\"><title>"
          "{}, {:.4g} long</title></rect>",
          x, top, std::max(0.5, w), classes[int(b.action.kind)],
          b.action.chunk % 2 == 1 ? " later" : "", describe(b.action), b.end - b.begin);
      if (w > 6.0 * double(number.size()) + 2)
        shapes += fmt::format(
            "<text x=\"{:.2f}\" y=\"{:.0f}\" text-anchor=\"middle\" class=\"number\">{}</text>",
            x + w / 2, top + 14, number);
    }
  }
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\">{}</svg>\n", width,
                     8 + lane * double(slots.size()), shapes);
}

std::string drawing_style() {
  return ".forward{fill:#5b8def}.backward{fill:#58b368}.weight{fill:#e0a03c}"
         ".later{fill-opacity:.65}rect.forward,rect.backward,rect.weight{stroke:#fff;"
         "stroke-width:.6}.number{fill:#fff}";
}

}  // namespace tutti::train
