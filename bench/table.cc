#include "bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/grid.h"
#include "bench/limit.h"
#include "bench/sizes.h"
#include "bench/table_parts.h"
#include "bench/transports.h"

namespace tutti::bench {
namespace {

using Results = std::vector<Result>;

template <class Key>
std::vector<Key> in_order(const Results& results, Key Result::*member) {
  std::vector<Key> keys;
  for (const Result& r : results)
    if (std::find(keys.begin(), keys.end(), r.*member) == keys.end()) keys.push_back(r.*member);
  return keys;
}

// What a row of the tables is about.
bool same_row(const Result& a, const Result& b) {
  return a.bytes == b.bytes && a.dtype == b.dtype && a.op == b.op && a.level == b.level;
}

// One result of each row.
std::vector<const Result*> rows(const Results& results) {
  std::vector<const Result*> rows;
  for (const Result& r : results)
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const Result* row) { return same_row(r, *row); }))
      rows.push_back(&r);
  return rows;
}

const Result* find(const Results& results, const std::string& algorithm, const Result& row) {
  for (const Result& r : results)
    if (r.algorithm == algorithm && same_row(r, row)) return &r;
  return nullptr;
}

// "float32 sum", without what does not apply.
std::string type_and_op(const Result& r) {
  std::string text = r.dtype == "none" ? "" : r.dtype;
  if (r.op != "none") text += " " + r.op;
  return text;
}

bool several_types(const Results& results) {
  return std::any_of(results.begin(), results.end(),
                     [&](const Result& r) { return type_and_op(r) != type_and_op(results[0]); });
}

bool several_levels(const Results& results) {
  return std::any_of(results.begin(), results.end(),
                     [&](const Result& r) { return r.level != results[0].level; });
}

// A row's name, without the level.
std::string vector_text(const Results& results, const Result& r) {
  if (!find_collective(r.collective).sized) return "-";
  return (several_types(results) ? type_and_op(r) + ", " : "") + format_bytes(r.bytes);
}

}  // namespace

std::string row_text(const Results& results, const Result& r) {
  return vector_text(results, r) + (several_levels(results) ? ", " + r.level : "");
}

namespace {

Column row_names(const Results& results) {
  const bool blocks = find_collective(results.front().collective).blocks;
  const bool text = several_types(results) || several_levels(results);
  Column names{blocks ? "buffer" : "vector", text, {}};
  for (const Result* row : rows(results)) names.cells.push_back(row_text(results, *row));
  return names;
}

// Whether `auto` chose an algorithm that was also measured by name.
bool repeats(const Results& results, const Result& r) {
  const Result* named = r.algorithm == "auto" ? find(results, r.chosen, r) : nullptr;
  return named && named->ran;
}

const Result* fastest(const Results& results, const Result& row) {
  const Result* best = nullptr;
  for (const Result& r : results) {
    if (!same_row(r, row) || !r.ran || !r.dense() || repeats(results, r)) continue;
    if (!best || r.us.median < best->us.median) best = &r;
  }
  return best;
}

std::string limit_cell(const Result* r) {
  return r && r->limit_us > 0 ? format_us(r->limit_us) : "-";
}
std::string reached_cell(const Result* r) {
  if (!r || r->limit_us <= 0) return "-";
  return fmt::format("{:.0f} %", 100 * r->limit_us / r->us.median);
}
std::string rate_cell(double GBs) { return GBs > 0 ? fmt::format("{:.2f}", GBs) : "-"; }

}  // namespace

std::string heading(const Results& results) {
  const Result& r = results.front();
  const Collective& collective = find_collective(r.collective);
  std::string out = fmt::format("{}: {} rank{} over {}", r.collective, r.ranks,
                                r.ranks == 1 ? "" : "s", r.transport);
  if (r.root >= 0) out += fmt::format(", root {}", r.root);
  if (!collective.sized) return out + "\n";
  out +=
      fmt::format(", {}, {} buffers",
                  several_types(results) ? "several types or operators" : type_and_op(r), r.memory);
  if (several_levels(results))
    out += ", several levels";
  else if (r.level != "fast" && r.level != "none")
    out += ", level " + r.level;
  if (collective.in_place != InPlace::always) out += r.in_place ? ", in place" : ", input kept";
  if (r.data == Data::live) out += ", live data";
  if (r.gpu.measured) out += gpu_heading(r);
  return out + "\n";
}

std::string about_machine(const Results& results) {
  double low = 0, high = 0;
  size_t dropped = 0;
  for (const Result& r : results) {
    if (r.hop_ns <= 0) continue;
    low = low > 0 ? std::min(low, r.hop_ns) : r.hop_ns;
    high = std::max(high, r.hop_ns);
    dropped += r.dropped;
  }
  if (high <= 0) return "";
  std::string text = "A flag takes ";
  text +=
      high < low * 1.15 ? fmt::format("{:.0f}", high) : fmt::format("{:.0f} to {:.0f}", low, high);
  text += " ns from core to core.";
  if (dropped)
    text += fmt::format(
        " It changed during the run: {} batches in the rarer state of the machine do not count.",
        format_thousands(dropped));
  return text;
}

std::string about_checks(const Results& results) {
  if (!find_collective(results.front().collective).sized) return "";
  uint64_t wrong = 0, checked = 0;
  for (const Result& r : results) {
    wrong += r.wrong;
    checked += r.checked;
  }
  if (wrong) {
    std::string text = fmt::format("WRONG RESULTS: {} elements. ", format_thousands(wrong));
    for (const Result& r : results)
      if (r.wrong)
        text += fmt::format("{} at {}: {}. ", r.algorithm, row_text(results, r),
                            format_thousands(r.wrong));
    return text;
  }
  return checked ? "Every result was checked on every rank, before and after timing: all right."
                 : "Results were not checked.";
}

std::string about_limit(const Results& results) {
  const Result& any = results.front();
  if (!find_collective(any.collective).sized) return "";
  const bool known =
      std::any_of(results.begin(), results.end(), [](const Result& r) { return r.limit_us > 0; });
  if (any.gpu.measured) return known ? about_gpu_limit(any) : "";
  const std::string undefined = undefined_limit(any.collective, any.transport, any.ranks);
  if (!known && undefined.empty())
    return fmt::format(
        "limit: not measured (it needs all ranks {}, and memory for it).",
        over_raw_sockets(any.transport) ? "in one network namespace of one host" : "on one host");
  if (!known) return "limit: " + undefined;
  std::string text;
  if (over_raw_sockets(any.transport))
    text = fmt::format(
        "limit: raw sockets that send and receive at once the bytes which each rank of any {} must "
        "send and receive.",
        any.collective);
  else
    text = fmt::format(
        "limit: a bare loop, without a library, over vectors that all ranks map, as symmetric and "
        "adopted memory is; those of the heap are copied first. The least work that any {} must do "
        "here.",
        any.collective);
  return undefined.empty() ? text : text + " " + undefined;
}

namespace {

std::string about_rates(const Result& r) {
  const Collective& collective = find_collective(r.collective);
  if (!collective.sized) return "";
  const std::string factor = collective.factor_shown(r.ranks);
  return fmt::format("algbw: bytes of the {} / time. busbw: {}. GB = 1e9 bytes.",
                     collective.blocks ? "longer buffer" : "vector",
                     factor.empty() ? "the same"
                                    : fmt::format("algbw{} for n = {} ranks, the rate that each "
                                                  "rank must reach",
                                                  factor, r.ranks));
}

std::string text_of(const Way& way) {
  const std::string how = way.way.empty() ? "" : " " + way.way;
  return fmt::format("{}{} {} µs (predicted {})", way.algorithm, how, format_us(way.measured_us),
                     format_us(way.predicted_us));
}

// What auto chose; neighbouring sizes with the same choice share a line, unless it was settled by
// times, which are shown.
std::string about_auto(const Results& results, size_t width) {
  std::string out;
  const Result* begin = nullptr;
  const Result* end = nullptr;
  auto flush = [&] {
    if (!begin) return;
    std::string sizes = begin->workload.empty() ? row_text(results, *begin) : "its buckets";
    if (end != begin) sizes += " to " + row_text(results, *end);
    std::string text =
        fmt::format("  {}: {} ({}). {}", sizes, begin->chosen, begin->path, begin->reason);
    if (begin->choice.measured_us > 0)
      text += "; on rank 0, when last tried: " + text_of(begin->choice);
    if (begin->choice.measured_us > 0 && begin->runner_up.measured_us > 0)
      text += ", " + text_of(begin->runner_up);
    out += wrap(text, width, 4);
  };
  for (const Result& r : results) {
    if (r.algorithm != "auto" || r.chosen.empty()) continue;
    if (!begin || r.chosen != begin->chosen || r.path != begin->path || r.reason != begin->reason ||
        r.choice.measured_us > 0) {
      flush();
      begin = &r;
    }
    end = &r;
  }
  flush();
  return out.empty() ? "" : "\nWhat auto takes:\n" + out;
}

std::string about_missing(const Results& results, size_t width) {
  std::map<std::string, std::string> reasons;
  for (const Result& r : results)
    if (!r.ran) reasons.emplace(r.algorithm, r.reason);
  std::string out;
  for (const auto& [algorithm, reason] : reasons)
    out += wrap(fmt::format("  {}: {}", algorithm, reason), width, 4);
  return out.empty() ? "" : "\nWhat cannot run (-):\n" + out;
}

std::string about_regret(const Results& results) {
  double logarithms = 0;
  size_t known = 0;
  for (const Result& r : results) {
    if (r.regret() <= 0) continue;
    logarithms += std::log(r.regret());
    ++known;
  }
  if (known == 0) return "";
  return fmt::format(
      "auto / best: the time of auto / that of the fastest algorithm by name in this run; "
      "geometric "
      "mean {:.2f}.",
      std::exp(logarithms / double(known)));
}

std::string footer(const Results& results, size_t width) {
  std::string out = "\n";
  const std::string gpu = results.front().gpu.measured ? about_gpu(results.front()) : "";
  for (const std::string& text :
       {about_regret(results), about_limit(results), about_rates(results.front()),
        about_machine(results), gpu, about_checks(results)})
    if (!text.empty()) out += wrap(text, width, 2);
  return out;
}

std::string fastest_grid(const Results& results, size_t width) {
  Column name{"fastest", true, {}}, time{"time µs", false, {}}, p95{"p95 µs", false, {}},
      limit{"limit µs", false, {}}, reached{"of limit", false, {}}, algbw{"algbw GB/s", false, {}},
      busbw{"busbw GB/s", false, {}};
  std::vector<const Result*> bests;
  for (const Result* row : rows(results)) {
    const Result* best = bests.emplace_back(fastest(results, *row));
    name.cells.push_back(best ? best->algorithm : "-");
    time.cells.push_back(best ? format_us(best->us.median) : "-");
    p95.cells.push_back(best ? format_us(best->us.p95) : "-");
    limit.cells.push_back(limit_cell(best));
    reached.cells.push_back(reached_cell(best));
    algbw.cells.push_back(best ? rate_cell(best->algbw_GBs()) : "-");
    busbw.cells.push_back(best ? rate_cell(best->busbw_GBs()) : "-");
  }
  if (!find_collective(results.front().collective).sized)
    return render_grid({name, time, p95}, width);
  std::vector<Column> columns{row_names(results), name, time, p95, limit, reached, algbw, busbw};
  if (results.front().gpu.measured)
    for (Column& column : gpu_columns(bests)) columns.push_back(std::move(column));
  return render_grid(columns, width);
}

Column regrets(const Results& results) {
  Column column{"auto / best", false, {}};
  for (const Result* row : rows(results)) {
    const Result* choice = find(results, "auto", *row);
    column.cells.push_back(choice && choice->regret() > 0 ? fmt::format("{:.2f}", choice->regret())
                                                          : "-");
  }
  return column;
}

std::string all_grid(const Results& results, size_t width) {
  const auto algorithms = in_order(results, &Result::algorithm);
  std::vector<Column> columns{row_names(results)};
  for (const std::string& algorithm : algorithms) columns.push_back({algorithm, false, {}});
  for (const Result* row : rows(results)) {
    const Result* best = fastest(results, *row);
    for (size_t i = 0; i < algorithms.size(); ++i) {
      const Result* r = find(results, algorithms[i], *row);
      const bool ran = r && r->ran;
      columns[i + 1].cells.push_back((ran ? format_us(r->us.median) : "-") +
                                     (ran && r == best ? "*" : " "));
    }
  }
  if (std::any_of(results.begin(), results.end(), [](const Result& r) { return r.regret() > 0; }))
    columns.push_back(regrets(results));
  return render_grid(columns, width);
}

// The cost of the levels: the fastest algorithm of each, and the other levels' times relative to
// the first one's.
std::string price_grid(const Results& results, size_t width) {
  const auto levels = in_order(results, &Result::level);
  std::vector<Column> columns{{"vector", several_types(results), {}}};
  for (const std::string& level : levels) {
    columns.push_back({level + " µs", false, {}});
    if (level != levels.front()) columns.push_back({"/ " + levels.front(), false, {}});
  }
  for (const Result* row : rows(results)) {
    if (row->level != levels.front()) continue;
    columns[0].cells.push_back(vector_text(results, *row));
    size_t column = 1;
    double first = 0;
    for (const std::string& level : levels) {
      Result same = *row;
      same.level = level;
      const Result* best = fastest(results, same);
      columns[column++].cells.push_back(best ? format_us(best->us.median) : "-");
      if (level == levels.front()) {
        first = best ? best->us.median : 0;
      } else {
        columns[column++].cells.push_back(
            best && first > 0 ? fmt::format("{:.2f}", best->us.median / first) : "-");
      }
    }
  }
  return render_grid(columns, width);
}

// The savings of sparse and encoded vectors, and the error of encoding.
std::string compressed_grid(const Results& results, size_t width) {
  std::vector<Column> columns{row_names(results)};
  for (const std::string& name : in_order(results, &Result::algorithm)) {
    const bool dense = std::all_of(results.begin(), results.end(), [&](const Result& r) {
      return r.algorithm != name || r.dense();
    });
    if (dense) continue;
    Column sent{name + ": sent", false, {}}, error{"error", false, {}};
    for (const Result* row : rows(results)) {
      const Result* r = find(results, name, *row);
      const double least = double(r->bytes) * 2 * (r->ranks - 1) / r->ranks;
      sent.cells.push_back(least > 0 ? fmt::format("{:.1f} %", 100 * r->sent_bytes / least) : "-");
      error.cells.push_back(fmt::format("{:.2g}", r->relative_error));
    }
    columns.push_back(std::move(sent));
    if (name.starts_with("codec")) columns.push_back(std::move(error));
  }
  if (columns.size() == 1) return "";
  return "\nBytes sent, of the least that a dense allreduce sends; error of encoding, relative:\n" +
         render_grid(columns, width);
}

}  // namespace

std::string render_sizes(const Results& results, size_t width) {
  if (results.empty()) return "";
  const size_t algorithms = in_order(results, &Result::algorithm).size();
  std::string out = heading(results);
  out += wrap(fmt::format("{} Time: one call, slowest rank, median over batches.",
                          find_collective(results.front().collective).about),
              width, 0);
  out += "\n" + fastest_grid(results, width);
  if (algorithms > 1)
    out += "\nEvery algorithm, µs (* the fastest of its row):\n" + all_grid(results, width);
  if (several_levels(results))
    out += "\nWhat the levels cost, each by its fastest algorithm:\n" + price_grid(results, width);
  out += compressed_grid(results, width);
  return out + about_auto(results, width) + about_missing(results, width) + footer(results, width);
}

std::string render_workload(const Results& all, size_t width) {
  Results results;
  int buckets = 0;
  for (const Result& r : all) {
    buckets = std::max(buckets, r.bucket + 1);
    if (r.bucket < 0) results.push_back(r);
  }
  if (results.empty()) return "";
  const Result& any = results.front();
  std::string out = heading(results);
  out +=
      wrap(fmt::format("{}: gradients of {} parameters, {} MB in {} buckets, one allreduce each. "
                       "Time: all of them, slowest rank, median over batches.",
                       any.workload, format_thousands(any.count),
                       format_thousands((any.bytes + 500'000) / 1'000'000), buckets),
           width, 0);
  Column name{"algorithm", true, {}}, time{"time ms", false, {}}, p95{"p95 ms", false, {}},
      limit{"limit ms", false, {}}, reached{"of limit", false, {}}, algbw{"algbw GB/s", false, {}},
      busbw{"busbw GB/s", false, {}};
  const Result* best = fastest(results, any);
  for (const Result& r : results) {
    auto ms = [&](double us) { return r.ran ? format_us(us / 1000) : std::string("-"); };
    name.cells.push_back(r.algorithm);
    time.cells.push_back(ms(r.us.median) + (&r == best ? "*" : " "));
    p95.cells.push_back(ms(r.us.p95));
    limit.cells.push_back(r.limit_us > 0 ? ms(r.limit_us) : "-");
    reached.cells.push_back(r.ran ? reached_cell(&r) : "-");
    algbw.cells.push_back(r.ran ? rate_cell(r.algbw_GBs()) : "-");
    busbw.cells.push_back(r.ran ? rate_cell(r.busbw_GBs()) : "-");
  }
  out += "\n" + render_grid({name, time, p95, limit, reached, algbw, busbw}, width);
  out += "  * the fastest\n";
  return out + about_auto(results, width) + about_missing(results, width) + footer(results, width);
}

}  // namespace tutti::bench
