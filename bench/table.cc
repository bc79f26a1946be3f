#include "bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/grid.h"
#include "bench/sizes.h"

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

const Result* find(const Results& results, const std::string& algorithm, size_t bytes) {
  for (const Result& r : results)
    if (r.algorithm == algorithm && r.bytes == bytes) return &r;
  return nullptr;
}

// Whether `auto` only repeats what also ran by its name.
bool repeats(const Results& results, const Result& r) {
  const Result* named = r.algorithm == "auto" ? find(results, r.chosen, r.bytes) : nullptr;
  return named && named->ran;
}

const Result* fastest(const Results& results, size_t bytes) {
  const Result* best = nullptr;
  for (const Result& r : results) {
    if (r.bytes != bytes || !r.ran || repeats(results, r)) continue;
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
std::string rate_cell(double GBs) { return fmt::format("{:.2f}", GBs); }

std::string heading(const Result& r) {
  return fmt::format("allreduce: {} rank{} over {}, {} {}, {} buffers, {}\n", r.ranks,
                     r.ranks == 1 ? "" : "s", r.transport, r.dtype, r.op, r.memory,
                     r.in_place ? "in place" : "input kept");
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
  uint64_t wrong = 0, checked = 0;
  for (const Result& r : results) {
    wrong += r.wrong;
    checked += r.checked;
  }
  if (wrong) {
    std::string text = fmt::format("WRONG RESULTS: {} elements. ", format_thousands(wrong));
    for (const Result& r : results)
      if (r.wrong)
        text += fmt::format("{} at {}: {}. ", r.algorithm, format_bytes(r.bytes),
                            format_thousands(r.wrong));
    return text;
  }
  return checked ? "Every result was checked on every rank, before and after timing: all right."
                 : "Results were not checked.";
}

std::string about_limit(const Results& results) {
  for (const Result& r : results) {
    if (r.limit_us <= 0) continue;
    if (r.transport == "tcp")
      return "limit: raw sockets that send and receive at once the bytes which the busiest rank of "
             "any allreduce must send.";
    return "limit: a bare loop, without a library, over memory that all ranks map; the least work "
           "that any allreduce must do here.";
  }
  return "limit: not measured (it needs all ranks on one host, and memory for it).";
}

std::string about_rates(int ranks) {
  return fmt::format(
      "algbw: bytes of the vector / time. busbw: algbw x 2(n-1)/n = {:.2f} for n = {} ranks, the "
      "rate "
      "that each rank must reach. GB = 1e9 bytes.",
      ranks > 0 ? 2.0 * (ranks - 1) / ranks : 0.0, ranks);
}

// What auto took, neighbouring sizes with the same choice in one line.
std::string about_auto(const Results& results, size_t width) {
  std::string out;
  const Result* begin = nullptr;
  const Result* end = nullptr;
  auto flush = [&] {
    if (!begin) return;
    std::string sizes = begin->workload.empty() ? format_bytes(begin->bytes) : "its buckets";
    if (end != begin) sizes += " to " + format_bytes(end->bytes);
    out += wrap(fmt::format("  {}: {} ({}). {}", sizes, begin->chosen, begin->path, begin->reason),
                width, 4);
  };
  for (const Result& r : results) {
    if (r.algorithm != "auto" || !r.ran) continue;
    if (!begin || r.chosen != begin->chosen || r.path != begin->path || r.reason != begin->reason) {
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

std::string footer(const Results& results, size_t width) {
  std::string out = "\n";
  for (const std::string& text : {about_limit(results), about_rates(results.front().ranks),
                                  about_machine(results), about_checks(results)})
    if (!text.empty()) out += wrap(text, width, 2);
  return out;
}

std::string fastest_grid(const Results& results, size_t width) {
  Column size{"vector", false, {}}, name{"fastest", true, {}}, time{"time µs", false, {}},
      p95{"p95 µs", false, {}}, limit{"limit µs", false, {}}, reached{"of limit", false, {}},
      algbw{"algbw GB/s", false, {}}, busbw{"busbw GB/s", false, {}};
  for (size_t bytes : in_order(results, &Result::bytes)) {
    const Result* best = fastest(results, bytes);
    size.cells.push_back(format_bytes(bytes));
    name.cells.push_back(best ? best->algorithm : "-");
    time.cells.push_back(best ? format_us(best->us.median) : "-");
    p95.cells.push_back(best ? format_us(best->us.p95) : "-");
    limit.cells.push_back(limit_cell(best));
    reached.cells.push_back(reached_cell(best));
    algbw.cells.push_back(best ? rate_cell(best->algbw_GBs()) : "-");
    busbw.cells.push_back(best ? rate_cell(best->busbw_GBs()) : "-");
  }
  return render_grid({size, name, time, p95, limit, reached, algbw, busbw}, width);
}

std::string all_grid(const Results& results, size_t width) {
  const auto algorithms = in_order(results, &Result::algorithm);
  std::vector<Column> columns{{"vector", false, {}}};
  for (const std::string& algorithm : algorithms) columns.push_back({algorithm, false, {}});
  for (size_t bytes : in_order(results, &Result::bytes)) {
    columns[0].cells.push_back(format_bytes(bytes));
    const Result* best = fastest(results, bytes);
    for (size_t i = 0; i < algorithms.size(); ++i) {
      const Result* r = find(results, algorithms[i], bytes);
      const bool ran = r && r->ran;
      columns[i + 1].cells.push_back((ran ? format_us(r->us.median) : "-") +
                                     (ran && r == best ? "*" : " "));
    }
  }
  return render_grid(columns, width);
}

}  // namespace

std::string render_sizes(const Results& results, size_t width) {
  if (results.empty()) return "";
  const size_t algorithms = in_order(results, &Result::algorithm).size();
  std::string out = heading(results.front());
  out += wrap(
      "Every rank gives a vector and gets all vectors combined. Time: one call, slowest rank, "
      "median over batches.",
      width, 0);
  out += "\n" + fastest_grid(results, width);
  if (algorithms > 1)
    out += "\nEvery algorithm, µs (* the fastest of its row):\n" + all_grid(results, width);
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
  std::string out = heading(any);
  out +=
      wrap(fmt::format("{}: gradients of {} parameters, {} MB in {} buckets, one allreduce each. "
                       "Time: all of them, slowest rank, median over batches.",
                       any.workload, format_thousands(any.count),
                       format_thousands((any.bytes + 500'000) / 1'000'000), buckets),
           width, 0);
  Column name{"algorithm", true, {}}, time{"time ms", false, {}}, p95{"p95 ms", false, {}},
      limit{"limit ms", false, {}}, reached{"of limit", false, {}}, algbw{"algbw GB/s", false, {}},
      busbw{"busbw GB/s", false, {}};
  const Result* best = fastest(results, any.bytes);
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
