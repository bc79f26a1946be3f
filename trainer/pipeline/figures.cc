#include "trainer/pipeline/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/pipeline/drawing.h"

namespace tutti::train {
namespace {

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
  PipelineFigures figures;
  figures.utilisation = pipeline.utilisation();
  figures.ideal = simulate(plan.schedule, plan.shape).utilisation;
  figures.measured = pipeline.gather_slots();
  const PipelineRun possible =
      simulate(plan.schedule, plan.shape, mean_times(figures.measured, plan.shape));
  figures.possible = possible.utilisation;
  figures.expected = possible.slots;

  const tutti_comm_counters counters = comm.counters();
  // By port: sent forward, sent back.
  std::vector<uint64_t> own{uint64_t(pipeline.peak_live()), pipeline.peak_bytes(),
                            counters.bytes_sent, counters.bytes_received};
  constexpr size_t facts = 4;
  own.resize(facts + 2 * plan.ports.size());
  for (const auto& [what, bytes] : pipeline.sent_bytes())
    own[facts + 2 * size_t(what.first) + (what.second ? 1 : 0)] = bytes;
  std::vector<uint64_t> all(own.size() * size_t(comm.size()));
  comm.allgather<uint64_t>(own, all);
  for (size_t p = 0; p < plan.ports.size(); ++p) {
    const Port& port = plan.ports[p];
    figures.ports.push_back({port.connection.from, port.connection.to, port.name, 0, 0});
    for (size_t r = 0; r < size_t(comm.size()); ++r) {
      figures.ports.back().forward += all[r * own.size() + facts + 2 * p];
      figures.ports.back().back += all[r * own.size() + facts + 2 * p + 1];
    }
  }
  for (int r = 0; r < comm.size(); ++r) {
    const uint64_t* f = all.data() + size_t(r) * own.size();
    figures.ranks.push_back({{}, int(f[0]), f[1], f[2], f[3]});
    for (int c = 0; c < plan.shape.chunks; ++c) {
      const LayerRange& part = plan.parts[size_t(plan.shape.part(plan.shape.widths.stage(r), c))];
      for (size_t i = part.begin; i < part.end; ++i)
        figures.ranks.back().layers.push_back(plan.layers[i]);
    }
  }
  return figures;
}

nlohmann::json json_of(const PipelineFigures& f, const PipelineShape& shape) {
  nlohmann::json stages = nlohmann::json::array(), ports = nlohmann::json::array();
  for (size_t r = 0; r < f.ranks.size(); ++r)
    stages.push_back({{"stage", shape.widths.name(int(r))},
                      {"layers", f.ranks[r].layers},
                      {"peak_live", f.ranks[r].peak_live},
                      {"activation_bytes", f.ranks[r].activation_bytes},
                      {"bytes_sent", f.ranks[r].bytes_sent},
                      {"bytes_received", f.ranks[r].bytes_received}});
  for (const auto& p : f.ports)
    ports.push_back({{"from", p.from},
                     {"to", p.to},
                     {"name", p.name},
                     {"forward_bytes", p.forward},
                     {"back_bytes", p.back}});
  return {{"schedule", shape.schedule},           {"stages", stages},
          {"micro_batches", shape.micro_batches}, {"chunks", shape.chunks},
          {"utilisation", f.utilisation},         {"utilisation_ideal", f.ideal},
          {"utilisation_possible", f.possible},   {"ports", ports}};
}

std::vector<std::string> lines_of(const PipelineFigures& f, const PipelineShape& shape) {
  std::vector<std::string> lines{fmt::format(
      "pipeline        {}: {:.1f} % of the stages' time was used; {:.1f} % by the schedule if they "
      "were alike, {:.1f} % with the times that they took",
      shape.schedule, 100 * f.utilisation, 100 * f.ideal, 100 * f.possible)};
  for (size_t r = 0; r < f.ranks.size(); ++r) {
    const auto& rank = f.ranks[r];
    lines.push_back(
        fmt::format("stage {:<9} {} micro-batches alive at once, {:.2f} MB of "
                    "activations; layers {}",
                    shape.widths.name(int(r)), rank.peak_live, double(rank.activation_bytes) / 1e6,
                    fmt::join(rank.layers, " ")));
  }
  return lines;
}

std::string html_of(const PipelineFigures& f, const PipelineShape& shape) {
  std::string rows;
  for (size_t r = 0; r < f.ranks.size(); ++r) {
    const auto& rank = f.ranks[r];
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</td></tr>\n",
                        shape.widths.name(int(r)), fmt::join(rank.layers, ", "), rank.peak_live,
                        double(rank.activation_bytes) / 1e6);
  }
  return fmt::format(
      "<h2>The pipeline</h2>\n<p>Schedule {}, {} micro-batches. The last step as it was measured, "
      "{:.1f} % of the stages' time used (all steps: {:.1f} %, median):</p>\n{}"
      "<p>The same schedule with the same times of the stages and no waiting for messages, {:.1f} "
      "%; were the stages alike it would be {:.1f} %:</p>\n{}"
      "<table><tr><th>stage</th><th>layers</th><th>micro-batches alive</th><th>MB of "
      "activations</th></tr>\n{}</table>\n",
      shape.schedule, shape.micro_batches, 100 * utilisation_of(f.measured), 100 * f.utilisation,
      drawing_svg(f.measured, shape), 100 * f.possible, 100 * f.ideal,
      drawing_svg(f.expected, shape), rows);
}

}  // namespace tutti::train
