#include "trainer/pipeline/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trainer/common/gather_text.h"

namespace tutti::train {
namespace {

using nlohmann::json;

// As --report's script has them.
json json_of(const std::vector<Slot>& slots) {
  json all = json::array();
  for (const auto& [action, begin, end] : slots)
    all.push_back({int(action.kind), action.micro_batch, action.chunk, begin, end});
  return all;
}

std::string label(const Action& a, bool chunks) {
  return fmt::format("{}{}{}", "fbw"[int(a.kind)], a.micro_batch,
                     chunks ? std::string(1, char('a' + a.chunk)) : "");
}

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

std::string drawing_text(const PipelineRun& run, const PipelineShape& shape) {
  const bool chunks = shape.chunks > 1;
  size_t width = 2;
  for (const auto& rank : run.slots)
    for (const Slot& b : rank) width = std::max(width, label(b.action, chunks).size());
  const std::string idle(width, '.'), more(width, '-');
  const int name = shape.widths.widest() > 1 ? 4 : 2;
  std::string text;
  for (size_t r = 0; r < run.slots.size(); ++r) {
    std::string line = fmt::format("stage {:<{}}", shape.widths.name(int(r)), name);
    double at = 0;
    for (const Slot& b : run.slots[r]) {
      for (; at < b.begin; ++at) line += " " + idle;
      line += fmt::format(" {:<{}}", label(b.action, chunks), width);
      for (++at; at < b.end; ++at) line += " " + more;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

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
  json sent = json::array();
  for (const auto& [what, bytes] : pipeline.sent_bytes())
    sent.push_back({what.first, what.second, bytes});
  const double utilisation = pipeline.utilisation();
  const std::vector<std::string> all = gather_text(
      comm, json{{"stage", stage}, {"slots", json_of(pipeline.slots())}, {"sent", sent}}.dump());
  PipelineFigures figures;
  if (comm.rank() != 0) return figures;

  json stages = json::array(), ports = json::array();
  json as_measured = json::array();
  std::vector<std::vector<Slot>> measured;
  for (const Port& port : plan.ports)
    ports.push_back({{"from", port.from},
                     {"to", port.to},
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
    as_measured.push_back(rank["slots"]);
    std::vector<Slot>& lane = measured.emplace_back();
    for (const json& s : rank["slots"])
      lane.push_back({{Action::Kind(s[0].get<int>()), s[1], s[2]}, s[3], s[4]});
  }
  const PipelineRun possible =
      simulate(plan.schedule, plan.shape, mean_times(measured, plan.shape));
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
  json expected = json::array();
  for (const auto& slots : possible.slots) expected.push_back(json_of(slots));
  figures.last_step = {
      {"used", utilisation_of(measured)}, {"measured", as_measured}, {"expected", expected}};
  return figures;
}

std::vector<std::pair<std::string, std::string>> lines_of(const PipelineFigures& f) {
  const auto percent = [&](const char* name) { return 100 * f.summary[name].get<double>(); };
  std::vector<std::pair<std::string, std::string>> lines{
      {"pipeline",
       fmt::format("{}: {:.1f} % of the stages' time was used; {:.1f} % by the schedule if they "
                   "were alike, {:.1f} % with the times that they took",
                   f.summary["schedule"].get<std::string>(), percent("utilisation"),
                   percent("utilisation_ideal"), percent("utilisation_possible"))}};
  for (const json& stage : f.summary["stages"])
    lines.emplace_back(
        "stage " + stage["stage"].get<std::string>(),
        fmt::format("{} micro-batches alive at once, {:.2f} MB of activations; layers {}",
                    stage["peak_live"].get<int>(), stage["activation_bytes"].get<double>() / 1e6,
                    fmt::join(stage["layers"].get<std::vector<std::string>>(), " ")));
  return lines;
}

}  // namespace tutti::train
