// `tutti show COLLECTIVE ALGORITHM -n P`: a schedule as text, or as a drawing.
#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "algorithms/registry.h"
#include "lib/schedule/draw.h"
#include "lib/schedule/prove.h"
#include "lib/schedule/text.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/rank_counts.h"

namespace tutti {
namespace {

struct ShowOptions {
  std::string collective;
  std::string algorithm;
  std::string ranks = "4";
  std::string root = "0";
  std::string rank;
  std::string svg;
};

std::string join(const std::string& list, const std::string& word) {
  return list.empty() ? word : list + ", " + word;
}

const Algorithm& algorithm_of(const ShowOptions& options) {
  std::string collectives, names;
  std::set<std::string> known;
  for (const Algorithm& algorithm : algorithms()) {
    const std::string collective = collective_name(algorithm.collective);
    if (known.insert(collective).second) {
      collectives = join(collectives, collective);
    }
    if (collective != options.collective) continue;
    if (options.algorithm == algorithm.name) return algorithm;
    names = join(names, algorithm.name);
  }
  if (!known.contains(options.collective)) {
    refuse("unknown collective " + options.collective + " (allowed: " + collectives + ")");
  }
  refuse("unknown algorithm " + options.algorithm + " (allowed: " + names + ")");
}

// Lines that are not part of the schedule begin with #, so that the output can be parsed again.
std::string describe(const Algorithm& algorithm, const schedule::Verdict& verdict) {
  std::string text = fmt::format("# {}: {}\n", algorithm.name, algorithm.about);
  text += fmt::format(
      "# {} rounds, {} with a port for every peer; {} messages; the busiest rank "
      "sends {} and reduces {} vectors\n",
      verdict.rounds, verdict.rounds_multiport, verdict.counts.messages, verdict.counts.sent.text(),
      verdict.counts.reduced.text());
  text += verdict.sound() ? fmt::format(
                                "# proven: complete, no deadlock, in place, same bits on all "
                                "ranks; rank order: {}; one tree: {}\n",
                                verdict.ordered ? "kept" : "not kept",
                                verdict.tree.empty() ? "no" : verdict.tree)
                          : "# NOT SOUND: " + verdict.failure + "\n";
  return text;
}

void write(const std::string& path, const std::string& text) {
  if (path == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) {
    fmt::print(stderr, "tutti show: cannot write {}\n", path);
    finish(1);
  }
}

void show(const ShowOptions& options) {
  const Algorithm& algorithm = algorithm_of(options);
  const uint32_t nranks = parse_number("-n", options.ranks, 1, most_ranks);
  const uint32_t root = parse_number("--root", options.root, 0, nranks - 1);
  if (!options.svg.empty()) {
    write(options.svg, schedule::draw_svg(algorithm, nranks, root));
    return;
  }
  const auto programs = schedule::build_all(algorithm.emit, {.nranks = nranks, .root = root});
  if (!options.rank.empty()) {
    const uint32_t rank = parse_number("--rank", options.rank, 0, nranks - 1);
    fmt::print("{}", schedule::print(programs[rank]));
    return;
  }
  const auto verdict = schedule::prove(programs, algorithm.collective, root);
  fmt::print("{}{}", describe(algorithm, verdict), schedule::print(programs));
}

}  // namespace
}  // namespace tutti

void add_show(CLI::App& app) {
  CLI::App* show = app.add_subcommand("show", "print or draw the schedule of an algorithm");
  auto options = std::make_shared<tutti::ShowOptions>();
  show->add_option("collective", options->collective, "allreduce, broadcast or reduce")->required();
  show->add_option("algorithm", options->algorithm, "its name, as in tutti verify")->required();
  show->add_option("-n,--ranks", options->ranks, "how many ranks (default 4)");
  show->add_option("--root", options->root, "of a broadcast or reduce (default 0)");
  show->add_option("--rank", options->rank, "only the steps of this rank");
  show->add_option("--svg", options->svg, "draw into this file instead (- is stdout)");
  show->callback([options] { tutti::show(*options); });
}
