#include "trainer/pipeline/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/common/gather_text.h"
#include "trainer/pipeline/drawing.h"

namespace tutti::train {
namespace {

using nlohmann::json;

// Measured mean times of the parts.
std::vector<PartTimes> mean_times(const std::vector<std::vector<Slot>>& slots,
                                  const PipelineShape& shape) {
  std::vector<PartTimes> times(size_t(shape.parts()), PartTimes{0, 0, 0});
  for (size_t r = 0; r < slots.size(); ++r)
    for (const Slot& slot : slots[r]) {
      const int stage = shape.widths.stage(int(r));
      PartTimes& part = times[size_t(shape.part(stage, slot.action.chunk))];
      double* const all[] = {&part.forward, &part.backward, &part.weight};
      *all[int(slot.action.kind)] += (slot.end - slot.begin) / shape.micro_batches;
    }
  return times;
}

}  // namespace

PipelineFigures figures_of(const Pipeline& pipeline) {
  const PipelinePlan& plan = pipeline.plan();
  const communicator& comm = pipeline.ranks();
  const tutti_comm_counters counters = comm.counters();
  json stage = {{"stage", plan.shape.widths.name(comm.rank())},
                {"layers", plan.layers_of(plan.shape.widths.stage(comm.rank()))},
                {"peak_live", pipeline.peak_live()},
                {"activation_bytes", pipeline.peak_bytes()},
                {"bytes_sent", counters.bytes_sent},
                {"bytes_received", counters.bytes_received}};
  json slots = json::array(), sent = json::array();
  for (const auto& [action, begin, end] : pipeline.slots())
    slots.push_back({int(action.kind), action.micro_batch, action.chunk, begin, end});
  for (const auto& [what, bytes] : pipeline.sent_bytes())
    sent.push_back({what.first, what.second, bytes});
  const double utilisation = pipeline.utilisation();
  const std::vector<std::string> all =
      gather_text(comm, json{{"stage", stage}, {"slots", slots}, {"sent", sent}}.dump());
  PipelineFigures figures;
  if (comm.rank() != 0) return figures;

  json stages = json::array(), ports = json::array();
  for (const Port& port : plan.ports)
    ports.push_back({{"from", port.connection.from},
                     {"to", port.connection.to},
                     {"name", port.name},
                     {"forward_bytes", uint64_t(0)},
                     {"back_bytes", uint64_t(0)}});
  for (const std::string& text : all) {
    const json rank = json::parse(text);
    stages.push_back(rank["stage"]);
    for (const json& s : rank["sent"]) {
      json& bytes = ports[s[0].get<size_t>()][s[1].get<bool>() ? "back_bytes" : "forward_bytes"];
      bytes = bytes.get<uint64_t>() + s[2].get<uint64_t>();
    }
    std::vector<Slot>& lane = figures.measured.emplace_back();
    for (const json& s : rank["slots"])
      lane.push_back({{Action::Kind(s[0].get<int>()), s[1], s[2]}, s[3], s[4]});
  }
  const PipelineRun possible =
      simulate(plan.schedule, plan.shape, mean_times(figures.measured, plan.shape));
  figures.expected = possible.slots;
  figures.summary = {{"schedule", plan.shape.schedule},
                     {"micro_batches", plan.shape.micro_batches},
                     {"chunks", plan.shape.chunks},
                     {"stages", stages},
                     {"ports", ports},
                     // The median over the steps; if all ranks had equal work; with the times of
                     // the stages as they were measured.
                     {"utilisation", utilisation},
                     {"utilisation_ideal", simulate(plan.schedule, plan.shape).utilisation},
                     {"utilisation_possible", possible.utilisation}};
  return figures;
}

namespace {

double percent(const PipelineFigures& figures, const char* name) {
  return 100 * figures.summary[name].get<double>();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> lines_of(const PipelineFigures& f) {
  std::vector<std::pair<std::string, std::string>> lines{
      {"pipeline",
       fmt::format("{}: {:.1f} % of the stages' time was used; {:.1f} % by the schedule if they "
                   "were alike, {:.1f} % with the times that they took",
                   f.summary["schedule"].get<std::string>(), percent(f, "utilisation"),
                   percent(f, "utilisation_ideal"), percent(f, "utilisation_possible"))}};
  for (const json& stage : f.summary["stages"])
    lines.emplace_back(
        "stage " + stage["stage"].get<std::string>(),
        fmt::format("{} micro-batches alive at once, {:.2f} MB of activations; layers {}",
                    stage["peak_live"].get<int>(), stage["activation_bytes"].get<double>() / 1e6,
                    fmt::join(stage["layers"].get<std::vector<std::string>>(), " ")));
  return lines;
}

std::string html_of(const PipelineFigures& f, const PipelineShape& shape) {
  return fmt::format(
      "<h2>The pipeline</h2>\n<p>Schedule {}, {} micro-batches. The last step as it was measured, "
      "{:.1f} % of the stages' time used (all steps: {:.1f} %, median):</p>\n{}"
      "<p>The same schedule with the same times of the stages and no waiting for messages, {:.1f} "
      "%; were the stages alike it would be {:.1f} %:</p>\n{}",
      shape.schedule, shape.micro_batches, 100 * utilisation_of(f.measured),
      percent(f, "utilisation"), drawing_svg(f.measured, shape), percent(f, "utilisation_possible"),
      percent(f, "utilisation_ideal"), drawing_svg(f.expected, shape));
}

}  // namespace tutti::train
