#include "bench/forms_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "bench/grid.h"
#include "bench/table_parts.h"

namespace tutti::bench {
namespace {

using Results = std::vector<Result>;
using Cell = std::function<std::string(const Result&)>;

// The vector, where there is one, and the algorithm, where there are several.
std::vector<Column> names(const Results& results) {
  const Collective& collective = find_collective(results.front().collective);
  std::vector<Column> columns;
  Column rows{collective.blocks ? "buffer" : "vector", false, {}},
      algorithms{"algorithm", true, {}};
  for (const Result& r : results) {
    rows.cells.push_back(row_text(results, r));
    algorithms.cells.push_back(r.algorithm);
  }
  const bool several = std::any_of(results.begin(), results.end(), [&](const Result& r) {
    return r.algorithm != results.front().algorithm;
  });
  if (collective.sized) columns.push_back(std::move(rows));
  if (several || !collective.sized) columns.push_back(std::move(algorithms));
  return columns;
}

// Columns of figures beside the names.
class Figures {
 public:
  explicit Figures(const Results& results) : results_(results), columns_(names(results)) {}
  void add(const char* head, const Cell& cell) {
    Column made{head, false, {}};
    for (const Result& r : results_) made.cells.push_back(r.ran ? cell(r) : "-");
    columns_.push_back(std::move(made));
  }
  std::string render(size_t width) const { return "\n" + render_grid(columns_, width); }

 private:
  const Results& results_;
  std::vector<Column> columns_;
};

std::string percent(double value) { return fmt::format("{:.0f} %", value); }

std::string paragraphs(const std::vector<std::string>& texts, size_t width) {
  std::string out = "\n";
  for (const std::string& text : texts)
    if (!text.empty()) out += wrap(text, width, 2);
  return out;
}

std::string about_progress(const Beside& b) {
  const std::string tests =
      b.tests ? fmt::format("{} call{} of tutti_test()", b.tests, b.tests == 1 ? "" : "s") : "";
  const std::string thread = b.progress_thread ? "the library's progress thread" : "";
  if (tests.empty() && thread.empty())
    return "While the rank computes, nobody moves the call on: --progress thread and --tests "
           "would.";
  const std::string both = thread.empty() || tests.empty() ? "" : " and ";
  return fmt::format("While the rank computes, the call is moved on by {}{}{}.", thread, both,
                     tests);
}

}  // namespace

std::string render_nonblocking(const Results& results, size_t width) {
  if (results.empty()) return "";
  std::string out = heading(results);
  out += wrap(
      "Nonblocking: a call is begun, the rank computes for as long as the call takes by itself, "
      "then "
      "it waits for the call. Times: slowest rank, median over batches.",
      width, 0);
  Figures figures(results);
  figures.add("call µs", [](const Result& r) { return format_us(r.beside.us.median); });
  figures.add("compute µs", [](const Result& r) { return format_us(r.beside.compute_us.median); });
  figures.add("sequence µs",
              [](const Result& r) { return format_us(r.beside.sequence_us.median); });
  figures.add("together µs",
              [](const Result& r) { return format_us(r.beside.together_us.median); });
  figures.add("p95 µs", [](const Result& r) { return format_us(r.beside.together_us.p95); });
  figures.add("overlap", [](const Result& r) { return percent(r.beside.overlap_percent); });
  figures.add("p5", [](const Result& r) { return percent(r.beside.overlap_p5_percent); });
  out += figures.render(width);
  return out +
         paragraphs(
             {std::string(
                  "call: begun, and waited for at once. compute: a loop of fixed length. ") +
                  "sequence: the blocking call, then the loop. together: the call begun, the loop, "
                  "the wait; p95 is what 95 % of the batches stay below.",
              std::string("overlap: how much of the call hides behind the loop, 1 - (together - ") +
                  "compute) / call: 100 % where the call costs no time, 0 % where nothing is "
                  "gained. "
                  "p5: 5 % of the rounds stay below.",
              about_progress(results.front().beside), about_machine(results),
              about_checks(results)},
             width);
}

std::string render_persistent(const Results& results, size_t width) {
  if (results.empty()) return "";
  std::string out = heading(results);
  out += wrap(
      "Persistent: a call is made once, then started and waited for again and again, in turn with "
      "the plain call. Times: slowest rank, median over batches.",
      width, 0);
  Figures figures(results);
  figures.add("plain µs", [](const Result& r) { return format_us(r.us.median); });
  figures.add("p95 µs", [](const Result& r) { return format_us(r.us.p95); });
  figures.add("persistent µs", [](const Result& r) { return format_us(r.beside.us.median); });
  figures.add("p95 µs", [](const Result& r) { return format_us(r.beside.us.p95); });
  figures.add("persistent / plain", [](const Result& r) {
    return fmt::format("{:.2f}", r.beside.us.median / r.us.median);
  });
  const bool sized = find_collective(results.front().collective).sized;
  if (sized)
    figures.add("limit µs", [](const Result& r) {
      return r.limit_us > 0 ? format_us(r.limit_us) : std::string("-");
    });
  out += figures.render(width);
  return out +
         paragraphs({"persistent / plain: below 1 the persistent call is the faster one. p95: "
                     "what 95 % of the batches stay below.",
                     about_limit(results), about_machine(results), about_checks(results)},
                    width);
}

std::string render_varied(const Results& results, size_t width) {
  if (results.empty()) return "";
  std::string out = heading(results);
  out += wrap(
      "Varied: counts that take turns, from the vector's down, another one with every call; in "
      "turn "
      "with the same counts, each repeated. Times: slowest rank, median over batches.",
      width, 0);
  Figures figures(results);
  figures.add("counts", [](const Result& r) { return std::to_string(r.beside.counts); });
  figures.add("repeated µs",
              [](const Result& r) { return format_us(r.beside.repeated_us.median); });
  figures.add("p95 µs", [](const Result& r) { return format_us(r.beside.repeated_us.p95); });
  figures.add("varied µs", [](const Result& r) { return format_us(r.beside.us.median); });
  figures.add("p95 µs", [](const Result& r) { return format_us(r.beside.us.p95); });
  figures.add("varied / repeated", [](const Result& r) {
    return fmt::format("{:.2f}", r.beside.us.median / r.beside.repeated_us.median);
  });
  out += figures.render(width);
  return out + paragraphs({"varied / repeated: 1 where a call costs the same whatever the count of "
                           "the one before was. p95: what 95 % of the batches stay below.",
                           about_machine(results), about_checks(results)},
                          width);
}

}  // namespace tutti::bench
