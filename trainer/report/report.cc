#include "trainer/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "trainer/common/files.h"
#include "trainer/common/gather_text.h"
#include "trainer/pipeline/drawing.h"

namespace tutti::train {
namespace {

using nlohmann::json;

// ---------------------------------------------------------------- drawings

constexpr double chart_width = 860;

std::string loss_curve(const std::vector<StepRecord>& history) {
  double low = INFINITY, high = -INFINITY;
  for (const StepRecord& r : history) {
    if (!std::isfinite(r.figures.loss)) continue;
    low = std::min(low, r.figures.loss);
    high = std::max(high, r.figures.loss);
  }
  if (!(low <= high)) return "<p>The loss was never a finite number.</p>\n";
  const double span = std::max(high - low, 1e-9);
  const double steps = std::max<double>(1, double(history.back().step - history.front().step));
  const auto x = [&](const StepRecord& r) {
    return 60 + (chart_width - 80) * double(r.step - history.front().step) / steps;
  };
  const auto y = [&](double loss) { return 20 + 240 * (high - loss) / span; };
  std::string line, dots;
  for (const StepRecord& r : history) {
    if (std::isfinite(r.figures.loss))
      line += fmt::format("{:.1f},{:.1f} ", x(r), y(r.figures.loss));
    if (r.validation > 0 && std::isfinite(r.validation))
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" class=\"valid\"><title>validation loss "
          "{:.4f} after step {}"
          "</title></circle>",
          x(r), std::clamp(y(r.validation), 10.0, 270.0), r.validation, r.step);
  }
  return fmt::format(
      "<p>Blue: the loss of each step; orange: of data that nothing is learnt from.</p>\n"
      "<svg viewBox=\"0 0 {0:.0f} 300\"><polyline points=\"{1}\" class=\"loss\"/>{2}"
      "<text x=\"4\" y=\"24\">{3:.3g}</text><text x=\"4\" y=\"264\">{4:.3g}</text>"
      "<text x=\"60\" y=\"290\">step {5}</text><text x=\"{6:.0f}\" y=\"290\" "
      "text-anchor=\"end\">step {7}</text></svg>\n",
      chart_width, line, dots, high, low, history.front().step, chart_width - 20,
      history.back().step);
}

// The last step: one lane for each rank and kind of work.
std::string step_lines(const std::vector<std::vector<Event>>& events) {
  int64_t last = -1;
  for (const auto& rank : events)
    for (const Event& e : rank) last = std::max(last, e.step);
  std::vector<Lane> lanes;
  for (size_t r = 0; r < events.size(); ++r)
    for (const char* const kind : {"compute", "communication"}) {
      Lane& lane = lanes.emplace_back(Lane{fmt::format("rank {} {}", r, kind), {}});
      for (const Event& e : events[r])
        if (e.step == last && e.lane == kind)
          lane.boxes.push_back({e.begin, e.end, kind, e.name,
                                fmt::format("{}: {:.3f} ms", e.name, 1e3 * (e.end - e.begin))});
    }
  const auto [begin, end] = extent_of(lanes);
  return fmt::format(
      "<p>Step {}, {:.2f} ms from left to right. Blue: the rank computes; orange: a call of the "
      "library is on "
      "its way, beside computation where both are above each other. Point at a box to see what it "
      "is.</p>\n{}",
      last + 1, 1e3 * std::max(0.0, end - begin), lanes_svg(lanes));
}

std::string bucket_times(const std::vector<std::vector<Event>>& events) {
  std::map<std::string, std::pair<double, std::vector<double>>> times;  // bytes, seconds
  for (const auto& rank : events)
    for (const Event& e : rank)
      if (e.lane == "communication") {
        times[e.name].first = e.bytes;
        times[e.name].second.push_back(e.end - e.begin);
      }
  if (times.empty()) return "<p>There was no communication.</p>\n";
  std::string rows;
  for (auto& [name, entry] : times) {
    auto& [bytes, seconds] = entry;
    std::sort(seconds.begin(), seconds.end());
    rows +=
        fmt::format("<tr><td>{}</td><td>{:.0f}</td><td>{:.3f}</td><td>{:.3f}</td></tr>\n",
                    escaped(name), bytes, 1e3 * seconds[seconds.size() / 2], 1e3 * seconds.back());
  }
  return "<table><tr><th></th><th>bytes</th><th>median ms</th><th>longest ms</th></tr>\n" + rows +
         "</table>\n";
}

std::string table_of(const Options& o, const std::vector<StepRecord>& history,
                     const Summary& summary) {
  std::string rows;
  const auto row = [&](const std::string& name, const std::string& value) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name, escaped(value));
  };
  row("model", o.model);
  row("workers", fmt::format("{}, {}", o.dp, o.sync));
  row("steps", std::to_string(history.size()));
  row("loss", fmt::format("{:.4f}", history.back().figures.loss));
  for (const auto& [name, text] : summary.lines) row(name, text);
  return "<table>" + rows + "</table>\n";
}

const char* const style =
    "body{font:15px sans-serif;max-width:900px;margin:2em auto;padding:0 "
    "1em;color:#222;background:#fff}"
    "svg{width:100%;font-size:12px}table{border-collapse:collapse}td,th{padding:2px 12px 2px "
    "0;text-align:left;vertical-align:top}"
    ".loss{fill:none;stroke:#2266bb;stroke-width:1.5}.valid{fill:#cc5500}.compute{fill:#2266bb}"
    ".communication{fill:#cc5500}.in{fill:#fff}"
    ".forward{fill:#5b8def}.backward{fill:#58b368}.weight{fill:#e0a03c}.later{fill-opacity:.65}"
    "rect.forward,rect.backward,rect.weight{stroke:#fff;stroke-width:.6}";

// Collective over the workers: the events of all, by rank; on rank 0 only.
std::vector<std::vector<Event>> gather_events(const Worker& worker) {
  json mine = json::array();
  for (const Event& e : worker.timeline.events())
    mine.push_back({e.lane, e.name, e.begin, e.end, e.step, e.bytes});
  std::vector<std::vector<Event>> events;
  for (const std::string& text : gather_text(worker.grid.all, mine.dump())) {
    events.emplace_back();
    for (const json& e : json::parse(text))
      events.back().push_back({e[0], e[1], e[2], e[3], e[4], e[5]});
  }
  return events;
}

// Chrome's trace format, one process per rank, one thread per lane.
void write_trace(const std::string& path, const std::vector<std::vector<Event>>& events) {
  double zero = INFINITY;
  for (const auto& rank : events)
    for (const Event& e : rank) zero = std::min(zero, e.begin);
  json all = json::array();
  for (size_t r = 0; r < events.size(); ++r) {
    all.push_back({{"ph", "M"},
                   {"pid", r},
                   {"name", "process_name"},
                   {"args", {{"name", fmt::format("rank {}", r)}}}});
    for (const int lane : {0, 1})
      all.push_back({{"ph", "M"},
                     {"pid", r},
                     {"tid", lane},
                     {"name", "thread_name"},
                     {"args", {{"name", lane == 0 ? "compute" : "communication"}}}});
    for (const Event& e : events[r])
      all.push_back({{"ph", "X"},
                     {"pid", r},
                     {"tid", e.lane == "compute" ? 0 : 1},
                     {"name", e.name},
                     {"ts", 1e6 * (e.begin - zero)},
                     {"dur", 1e6 * (e.end - e.begin)},
                     {"args", {{"step", e.step + 1}, {"bytes", e.bytes}}}});
  }
  write_file(path, json({{"traceEvents", all}, {"displayTimeUnit", "ms"}}).dump());
}

}  // namespace

void write_records(const Worker& worker, const std::vector<StepRecord>& history,
                   const Summary& summary) {
  const Options& o = worker.options;
  if (o.report.empty() && o.trace.empty()) return;
  const auto events = gather_events(worker);
  if (worker.grid.all.rank() != 0 || history.empty()) return;
  if (!o.trace.empty()) write_trace(o.trace, events);
  if (o.report.empty()) return;
  const std::string pipeline =
      worker.pipeline ? html_of(summary.pipeline, worker.pipeline->plan().shape) : "";
  write_file(o.report,
             fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>"
                         "tutti-train: {0}</title>\n<style>{1}</style></head><body>\n"
                         "<h1>tutti-train: {0}</h1>\n{2}<h2>Loss</h2>\n{3}{4}<h2>A step</h2>\n{5}"
                         "<h2>Time of each exchange</h2>\n{6}</body></html>\n",
                         escaped(o.model), style, table_of(o, history, summary),
                         loss_curve(history), pipeline, step_lines(events), bucket_times(events)));
}

}  // namespace tutti::train
