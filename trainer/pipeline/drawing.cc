#include "trainer/pipeline/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

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
  const bool chunks = has_chunks(slots);
  std::vector<Lane> lanes;
  for (size_t r = 0; r < slots.size(); ++r) {
    Lane& lane = lanes.emplace_back(Lane{"stage " + shape.widths.name(int(r)), {}});
    for (const Slot& b : slots[r])
      lane.boxes.push_back(
          {b.begin, b.end,
           std::string(classes[int(b.action.kind)]) + (b.action.chunk % 2 == 1 ? " later" : ""),
           label(b.action, chunks),
           fmt::format("{}, {:.4g} long", describe(b.action), b.end - b.begin)});
  }
  return lanes_svg(lanes);
}

std::pair<double, double> extent_of(const std::vector<Lane>& lanes) {
  double begin = INFINITY, end = -INFINITY;
  for (const Lane& lane : lanes)
    for (const Lane::Box& box : lane.boxes) {
      begin = std::min(begin, box.begin);
      end = std::max(end, box.end);
    }
  return {begin, end};
}

std::string lanes_svg(const std::vector<Lane>& lanes) {
  constexpr double width = 860, left = 150, height = 24;
  const auto [begin, end] = extent_of(lanes);
  if (!(begin < end)) return "<p>Nothing was recorded.</p>\n";
  const double scale = (width - left - 4) / (end - begin);
  std::string shapes;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const double top = 4 + height * double(i);
    shapes += fmt::format("<text x=\"0\" y=\"{:.0f}\">{}</text>", top + 15, escaped(lanes[i].name));
    for (const Lane::Box& box : lanes[i].boxes) {
      const double x = left + (box.begin - begin) * scale, w = (box.end - box.begin) * scale;
      shapes += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"20\" class=\"{}\"><title>{}"
          "</title></rect>",
          x, top, std::max(0.5, w), box.style, escaped(box.title));
      if (w > 7.0 * double(box.label.size()) + 2)
        shapes += fmt::format(
            "<text x=\"{:.2f}\" y=\"{:.0f}\" text-anchor=\"middle\" class=\"in\">{}</text>",
            x + w / 2, top + 14, escaped(box.label));
    }
  }
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\">{}</svg>\n", width,
                     8 + height * double(lanes.size()), shapes);
}

std::string escaped(const std::string& text) {
  static const std::map<char, const char*> names{
      {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
  std::string out;
  for (const char c : text) {
    const auto name = names.find(c);
    out += name == names.end() ? std::string(1, c) : name->second;
  }
  return out;
}

}  // namespace tutti::train
