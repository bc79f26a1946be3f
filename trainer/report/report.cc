#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/common/files.h"
#include "trainer/common/gather_text.h"
#include "trainer/report/script.h"
#include "trainer/report/summary.h"

namespace tutti::train {
namespace {

using nlohmann::json;

// This rank's part of the trace; times are those of the host's clock.
json own_events(const Worker& worker) {
  const int rank = worker.grid.all.rank();
  const char* const lanes[] = {"compute", "communication"};
  const auto name = [&](const char* what, int lane, const std::string& is) -> json {
    return {{"ph", "M"}, {"pid", rank}, {"tid", lane}, {"name", what}, {"args", {{"name", is}}}};
  };
  json all = {name("process_name", 0, fmt::format("rank {}", rank)),
              name("thread_name", 0, lanes[0]), name("thread_name", 1, lanes[1])};
  for (const Event& e : worker.timeline.events())
    all.push_back({{"ph", "X"},
                   {"pid", rank},
                   {"tid", e.lane == lanes[0] ? 0 : 1},
                   {"name", e.name},
                   {"ts", 1e6 * e.begin},
                   {"dur", 1e6 * (e.end - e.begin)},
                   {"args", {{"step", e.step + 1}, {"bytes", e.bytes}}}});
  return all;
}

// Collective over the workers; the whole trace is on rank 0. It begins at 0.
json gathered_events(const Worker& worker) {
  json all = json::array();
  for (const std::string& text : gather_text(worker.grid.all, own_events(worker).dump()))
    for (json& event : json::parse(text)) all.push_back(std::move(event));
  double first = INFINITY;
  for (const json& event : all) first = std::min(first, event.value("ts", double(INFINITY)));
  for (json& event : all)
    if (event.contains("ts")) event["ts"] = event["ts"].get<double>() - first;
  return all;
}

}  // namespace

void write_records(const Worker& worker, const std::vector<StepRecord>& history,
                   const Summary& summary) {
  const Options& o = worker.options;
  if (o.report.empty() && o.trace.empty()) return;
  const json trace = gathered_events(worker);
  if (worker.grid.all.rank() != 0 || history.empty()) return;
  if (!o.trace.empty())
    write_file(o.trace, json({{"traceEvents", trace}, {"displayTimeUnit", "ms"}}).dump());
  if (o.report.empty()) return;
  std::vector<std::pair<std::string, std::string>> figures{
      {"model", o.model},
      {"workers", fmt::format("{}, {}", o.dp, o.sync)},
      {"steps", std::to_string(history.size())},
      {"loss", fmt::format("{:.4f}", history.back().figures.loss)}};
  figures.insert(figures.end(), summary.lines.begin(), summary.lines.end());
  json steps = json::array();
  for (const StepRecord& r : history)
    steps.push_back({r.step, r.figures.loss, r.validation > 0 ? json(r.validation) : json()});
  Script page(page_script, o.report);
  page.give({{"model", o.model},
             {"ranks", worker.grid.all.size()},
             {"figures", figures},
             {"steps", steps},
             {"pipeline", summary.pipeline.summary},
             {"last_step", summary.pipeline.last_step},
             {"trace", trace}});
  page.finish();
}

}  // namespace tutti::train
