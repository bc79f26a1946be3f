#include "bench/builds/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/grid.h"
#include "bench/sizes.h"
#include "bench/terminal.h"

namespace tutti::bench::builds {
namespace {

std::string size_of(const Cell& cell) { return cell.kind->sized ? format_bytes(cell.bytes) : "-"; }

std::string about(const State& state, const std::vector<Cell>& cells) {
  const Row& worst = state.rows[state.worst];
  const Cell& cell = cells[worst.cell];
  return fmt::format("new/base: {:.3f} in the geometric mean of {}, {:.3f} at worst ({}{})\n",
                     state.mean_ratio, state.rows.size(), worst.ratio, cell.kind->name,
                     cell.kind->sized ? " of " + format_bytes(cell.bytes) : "");
}

std::string to_table(const State& state, const std::vector<Cell>& cells) {
  std::vector<Column> columns{{"collective", true, {}}, {"size", false, {}},
                              {"starts", false, {}},    {"turns", false, {}},
                              {"hop ns", false, {}},    {"base us", false, {}},
                              {"new us", false, {}},    {"new/base", false, {}},
                              {"error %", false, {}},   {"quartiles", false, {}}};
  for (const Row& row : state.rows) {
    const std::string line[] = {cells[row.cell].kind->name,
                                size_of(cells[row.cell]),
                                fmt::format("{}", row.starts),
                                fmt::format("{}", row.turns),
                                fmt::format("{:.0f}", row.hop_ns),
                                format_us(row.base_us),
                                format_us(row.new_us),
                                fmt::format("{:.3f}", row.ratio),
                                row.starts > 1 ? fmt::format("{:.1f}", row.error_percent) : "-",
                                fmt::format("{:.3f}-{:.3f}", row.ratio_p25, row.ratio_p75)};
    for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(line[i]);
  }
  return render_grid(columns, screen_width());
}

}  // namespace

std::string to_text(const Verdict& verdict, const std::vector<Cell>& cells) {
  std::string text;
  for (const State& state : verdict.states) {
    if (!text.empty()) text += "\n";
    text += fmt::format("While a flag took {:.0f} ns from core to core:\n", state.hop_ns);
    text += to_table(state, cells) + about(state, cells);
  }
  if (verdict.flips)
    text +=
        fmt::format("\n{} turns of a cell left out: that time changed meanwhile\n", verdict.flips);
  return text;
}

std::string to_json(const Verdict& verdict, const std::vector<Cell>& cells, const Method& method) {
  std::string text;
  for (const State& state : verdict.states) {
    for (const Row& row : state.rows) {
      const nlohmann::ordered_json object{{"collective", cells[row.cell].kind->name},
                                          {"ranks", method.nranks},
                                          {"bytes", cells[row.cell].bytes},
                                          {"memory", method.symmetric ? "symmetric" : "heap"},
                                          {"data", data_name(method.data)},
                                          {"state_hop_ns", state.hop_ns},
                                          {"hop_ns", row.hop_ns},
                                          {"starts", row.starts},
                                          {"turns", row.turns},
                                          {"base_us", row.base_us},
                                          {"new_us", row.new_us},
                                          {"ratio", row.ratio},
                                          {"ratio_p25", row.ratio_p25},
                                          {"ratio_p75", row.ratio_p75},
                                          {"error_percent", row.error_percent}};
      text += object.dump() + "\n";
    }
  }
  return text;
}

}  // namespace tutti::bench::builds
