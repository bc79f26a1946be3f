#include "bench/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "bench/error.h"
#include "bench/oracle.h"
#include "bench/sizes.h"
#include "bench/workload.h"

namespace tutti::bench {
namespace {

const std::vector<std::string> known_transports = {"shm", "tcp", "inproc"};

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');)
    if (!contains(out, word)) out.push_back(word);
  return out;
}

std::vector<std::string> resolve_algorithms(const std::string& text) {
  const std::vector<std::string> known = allreduce_algorithms();
  std::vector<std::string> out;
  for (const std::string& word : words(text)) {
    if (word == "all") {
      out.insert(out.end(), known.begin(), known.end());
      out.push_back("auto");
    } else if (word == "auto" || contains(known, word)) {
      out.push_back(word);
    } else {
      throw BadInput(fmt::format("unknown algorithm '{}': allowed are all, auto, {}", word,
                                 fmt::join(known, ", ")));
    }
  }
  if (out.empty()) throw BadInput("--algorithms: name at least one");
  std::vector<std::string> unique;
  for (const std::string& name : out)
    if (!contains(unique, name)) unique.push_back(name);
  return unique;
}

}  // namespace

std::vector<std::string> allreduce_algorithms() {
  std::vector<std::string> names;
  tutti_algorithm_info info{};
  info.size = sizeof info;
  for (size_t i = 0; tutti_algorithm_get(i, &info) == TUTTI_OK; ++i) {
    if (std::string(info.collective) == "allreduce") names.emplace_back(info.name);
    info.size = sizeof info;
  }
  return names;
}

void add_allreduce_options(CLI::App& app, AllreduceOptions& o) {
  app.add_option("-n,--ranks", o.nranks, "ranks to start on this host (a launcher's number wins)")
      ->check(CLI::Range(1, int(Oracle::most_ranks)))
      ->capture_default_str();
  app.add_option(
      "--sizes", o.sizes_text,
      "bytes of the vector: 4:64M (the default; factor 4), 4,1K,10M; K, M, G are binary");
  app.add_option("--algorithms", o.algorithms_text, "all, auto or a comma list")
      ->capture_default_str();
  app.add_option("--transport", o.transports_text, "comma list of shm, tcp, inproc (threads)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->capture_default_str();
  app.add_option("--dtype", o.dtype_text, "element type")->capture_default_str();
  app.add_option("--op", o.op_text, "operator")->capture_default_str();
  app.add_option("--memory", o.memory_text,
                 "heap, or symmetric: memory that all ranks of a host map")
      ->capture_default_str();
  app.add_flag("--in-place", o.in_place, "the result replaces the input");
  app.add_option("--workload", o.workload,
                 "instead of sizes, a model's gradients in buckets: resnet50, gpt2, bert-large");
  app.add_option("--iterations", o.method.iterations, "calls a batch; 0: at least 20 us' worth")
      ->capture_default_str();
  app.add_option("--batches", o.method.batches, "batches an algorithm; 0: what --seconds allows")
      ->capture_default_str();
  app.add_option("--seconds", o.method.seconds, "time for all batches of one size")
      ->capture_default_str();
  app.add_flag("!--no-check", o.check, "do not check the results");
  app.add_flag("--unfused", o.unfused, "run schedules step by step, without fused paths");
  app.add_option("--json", o.json, "write one object a line to a file, or - for stdout")
      ->type_name("FILE");
  app.add_option("--csv", o.csv, "write comma separated values to a file, or - for stdout")
      ->type_name("FILE");
  app.add_flag("--append", o.append)->group("");
}

void resolve(AllreduceOptions& o) {
  if (tutti_dtype_from_name(o.dtype_text.c_str(), &o.dtype) != TUTTI_OK ||
      tutti_op_from_name(o.op_text.c_str(), &o.op) != TUTTI_OK)
    throw BadInput(tutti_last_error());
  if (!tutti_op_supports(o.op, o.dtype))
    throw BadInput(fmt::format("operator {} is not defined on {}", o.op_text, o.dtype_text));
  if (!Oracle::knows(o.dtype))
    throw BadInput(fmt::format("--dtype {}: the benchmark makes no accumulators", o.dtype_text));
  o.transports = words(o.transports_text);
  for (const std::string& transport : o.transports)
    if (!contains(known_transports, transport))
      throw BadInput(fmt::format("unknown transport '{}': allowed are {}", transport,
                                 fmt::join(known_transports, ", ")));
  if (o.transports.empty()) throw BadInput("--transport: name at least one");
  if (o.memory_text != "heap" && o.memory_text != "symmetric")
    throw BadInput(fmt::format("unknown memory '{}': allowed are heap, symmetric", o.memory_text));
  o.memory = o.memory_text == "heap" ? Memory::heap : Memory::symmetric;
  o.algorithms = resolve_algorithms(o.algorithms_text);
  const size_t element = tutti_dtype_size(o.dtype);
  if (o.sizes_text.empty()) o.sizes_text = fmt::format("{}:64M", std::max<size_t>(4, element));
  if (!o.workload.empty())
    make_workload(o.workload);
  else
    o.sizes = parse_sizes(o.sizes_text, element);
  if (!(o.method.seconds > 0)) throw BadInput("--seconds: must be more than 0");
  if (o.json == "-" && o.csv == "-") throw BadInput("only one of --json and --csv can be stdout");
}

}  // namespace tutti::bench
