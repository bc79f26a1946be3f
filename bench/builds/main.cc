// tutti-compare: two builds of the library, call for call in one set of processes. bench/compare
// builds and starts it; see bench/README.md.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <optional>
#include <string>

#include "bench/builds/report.h"
#include "bench/busy.h"
#include "bench/error.h"
#include "bench/sizes.h"

namespace {

using namespace tutti::bench;
using namespace tutti::bench::builds;

constexpr int busy_ms = 200;

struct Options {
  std::string base, next;
  std::string collectives = "allreduce";
  std::string sizes = "8:64K";
  std::string memory = "heap", data = "still";
  std::string json;  // "": none
  std::optional<double> limit;
  Method method;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("base", o.base, "libtutti.so of the one build")->required();
  app.add_option("new", o.next, "libtutti.so of the other")->required();
  app.add_option("-n,--ranks", o.method.nranks, "processes (2)")->check(CLI::Range(1, 1024));
  app.add_option("--collective", o.collectives,
                 "comma list of allreduce (the default), broadcast, reduce, allgather, alltoall, "
                 "reduce_scatter and barrier");
  app.add_option(
      "--sizes", o.sizes,
      "bytes of the longer buffer: comma list of sizes and ranges, which double (8:64K)");
  app.add_option("--memory", o.memory, "of the vectors (heap)")
      ->check(CLI::IsMember({"heap", "symmetric"}));
  app.add_option("--data", o.data,
                 "live: vectors are written before each call and read behind it (still)")
      ->check(CLI::IsMember({"still", "live"}));
  app.add_option("--turns", o.method.turns,
                 "of a cell in each start; unless given, as many as --seconds allow")
      ->check(CLI::Range(5, 1000000));
  app.add_option("--seconds", o.method.seconds, "of all turns together (20)")
      ->check(CLI::PositiveNumber);
  app.add_option("--starts", o.method.starts, "how often the ranks are started anew (40)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--limit", o.limit,
                 "percent; exit status 1 if a median of new exceeds that of base by more");
  app.add_option("--json", o.json, "also write an object a line to this file; - for stdout alone");
}

int compare(Options& o) {
  o.method.symmetric = o.memory == "symmetric";
  o.method.data = data_from_name(o.data);
  const auto cells =
      make_cells(o.collectives, parse_sizes(o.sizes, sizeof(float), 2), o.method.nranks);
  const LibraryCopy base(o.base), next(o.next);
  const std::string busy = about_busy(busy_share(busy_ms));
  const Verdict verdict = judge(measure(base, next, cells, o.method), cells.size());
  if (verdict.states.empty()) throw Failure("too few turns in one state of the machine");

  const std::string json = to_json(verdict, cells, o.method);
  if (o.json != "-") {
    fmt::print("base {}\nnew  {}\n{} ranks, {} memory, {} data\n\n{}", o.base, o.next,
               o.method.nranks, o.memory, o.data, to_text(verdict, cells));
    if (!busy.empty()) fmt::print("\n{}\n", busy);
  } else {
    fmt::print("{}", json);
  }
  if (!o.json.empty() && o.json != "-" && !(std::ofstream(o.json) << json))
    throw Failure("cannot write " + o.json);
  return o.limit && exceeds(verdict, *o.limit) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Compares two builds of the library, call for call in one set of processes."};
  app.name("tutti-compare");
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    return compare(options);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "tutti-compare: {}\n", error.what());
    return 2;
  } catch (const BadInput& error) {
    fmt::print(stderr, "tutti-compare: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-compare: {}\n", error.what());
    return 1;
  }
}
