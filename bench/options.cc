#include "bench/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "bench/calls.h"
#include "bench/error.h"
#include "bench/gpu.h"
#include "bench/oracle.h"
#include "bench/sizes.h"
#include "bench/transports.h"
#include "bench/workload.h"
#include "transports/registry.h"

namespace tutti::bench {
namespace {

// Only allreduce has workloads (gradients) and sparse and encoded forms.
bool is_allreduce(const Collective& collective) {
  return std::string(collective.name) == "allreduce";
}

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

// Names of the library's algorithms for the collective; empty if there is nothing to choose.
std::vector<std::string> algorithms_of(const std::string& collective) {
  std::vector<std::string> names;
  tutti_algorithm_info info{};
  info.size = sizeof info;
  for (size_t i = 0; tutti_algorithm_get(i, &info) == TUTTI_OK; ++i) {
    if (collective == info.collective) names.emplace_back(info.name);
    info.size = sizeof info;
  }
  return names;
}

std::vector<std::string> resolve_algorithms(const std::string& collective,
                                            const std::string& text) {
  const std::vector<std::string> known = algorithms_of(collective);
  std::vector<std::string> out;
  for (const std::string& word : words(text)) {
    if (word == "all") {
      out.insert(out.end(), known.begin(), known.end());
      out.push_back("auto");
    } else if (word == "auto" || contains(known, word)) {
      out.push_back(word);
    } else {
      throw BadInput(fmt::format("unknown algorithm '{}': allowed are all, auto{}{}", word,
                                 known.empty() ? "" : ", ", fmt::join(known, ", ")));
    }
  }
  if (out.empty()) throw BadInput("--algorithms: name at least one");
  std::vector<std::string> unique;
  for (const std::string& name : out)
    if (!contains(unique, name)) unique.push_back(name);
  return unique;
}

std::vector<tutti_dtype> resolve_types(const std::string& text) {
  std::vector<tutti_dtype> types;
  if (text == "all") {
    for (int i = 0; i < TUTTI_DTYPE_COUNT; ++i)
      if (Oracle::knows(tutti_dtype(i), TUTTI_SUM)) types.push_back(tutti_dtype(i));
    return types;
  }
  types.resize(1);
  if (tutti_dtype_from_name(text.c_str(), &types[0]) != TUTTI_OK)
    throw BadInput(tutti_last_error());
  if (!Oracle::knows(types[0], TUTTI_SUM))
    throw BadInput(fmt::format("--dtype {}: the benchmark makes no accumulators", text));
  return types;
}

// Collectives without a reduction are tested with values that hardly two ranks share: those made
// for the first of these operators that the type has.
tutti_op maker_of_values(tutti_dtype dtype) {
  for (const tutti_op op : {TUTTI_MAX, TUTTI_SUM, TUTTI_MAXLOC})
    if (tutti_op_supports(op, dtype)) return op;
  return TUTTI_SUM;
}

std::vector<tutti_level> resolve_levels(const std::string& text) {
  std::vector<tutti_level> levels;
  for (const std::string& word : words(text == "all" ? "fast,layout,canonical,exact" : text)) {
    tutti_level level = TUTTI_LEVEL_DEFAULT;
    if (tutti_level_from_name(word.c_str(), &level) != TUTTI_OK) throw BadInput(tutti_last_error());
    levels.push_back(level);
  }
  if (levels.empty()) throw BadInput("--level: name at least one");
  return levels;
}

std::vector<tutti_op> resolve_ops(const std::string& text) {
  std::vector<tutti_op> ops;
  if (text == "all") {
    for (int i = 0; i < TUTTI_OP_COUNT; ++i) ops.push_back(tutti_op(i));
    return ops;
  }
  ops.resize(1);
  if (tutti_op_from_name(text.c_str(), &ops[0]) != TUTTI_OK) throw BadInput(tutti_last_error());
  return ops;
}

Memory resolve_memory(std::string& text) {
  if (text == "host") text = "heap";
  if (text == "heap") return Memory::heap;
  if (text == "adopted") return Memory::adopted;
  if (text == "symmetric") return Memory::symmetric;
  if (text == "cuda") return Memory::cuda;
  if (text == "cuda-symmetric") return Memory::cuda_symmetric;
  throw BadInput(fmt::format(
      "unknown memory '{}': allowed are heap (or host), adopted, symmetric, cuda, cuda-symmetric",
      text));
}

// Batches long enough to amortise the wait for a GPU, and no longer than its queue.
void resolve_gpu_method(Method& method) {
  method.least_batch_us = 200;
  method.most_iterations = Batches::most_calls;
}

void resolve_gpu(Options& o) {
  o.memory = resolve_memory(o.memory_text);
  if (!on_gpu(o.memory)) {
    if (!o.ranks_as_text.empty() || o.ranks_a_gpu || o.graph)
      throw BadInput("--ranks-as, --ranks-per-gpu and --graph: mean something with --memory cuda");
    return;
  }
  if (!o.ranks_as_text.empty() && o.ranks_as_text != "processes" && o.ranks_as_text != "threads")
    throw BadInput(fmt::format("--ranks-as {}: allowed are processes, threads", o.ranks_as_text));
  o.gpu_threads = o.ranks_as_text == "threads";
  if (!calls_of(*o.collective).on)
    throw BadInput(
        fmt::format("--memory {}: {} has no form on a stream", o.memory_text, o.collective->name));
  if (o.nonblocking || o.persistent || o.varied != 0 || !o.workload.empty() ||
      !o.densities_text.empty() || !o.codecs_text.empty())
    throw BadInput(
        fmt::format("--memory {}: leave out --nonblocking, --persistent, --vary-counts, "
                    "--workload, --density and --codec",
                    o.memory_text));
  if (o.transports_text != default_transport())
    throw BadInput(
        fmt::format("--memory {}: vectors stay on the GPU; leave out --transport", o.memory_text));
  o.transports_text = "cuda";
  resolve_gpu_method(o.method);
}

std::vector<TypeAndOp> resolve_combinations(const Options& o) {
  if (!o.collective->sized) return {{TUTTI_UINT8, TUTTI_MAX}};
  std::vector<TypeAndOp> combinations;
  const auto types = resolve_types(o.dtype_text);
  const auto ops = o.collective->reduces ? resolve_ops(o.op_text) : std::vector<tutti_op>();
  for (const tutti_dtype dtype : types)
    for (const tutti_op op : o.collective->reduces ? ops : std::vector{maker_of_values(dtype)})
      if (tutti_op_supports(op, dtype) && Oracle::knows(dtype, op))
        combinations.push_back({dtype, op});
  if (combinations.empty())
    throw BadInput(fmt::format("operator {} is not defined on {}", o.op_text, o.dtype_text));
  return combinations;
}

void resolve_compressed(Options& o) {
  o.codecs = words(o.codecs_text);
  for (const std::string& codec : o.codecs) {
    const tutti_codec* found = nullptr;
    if (tutti_codec_from_name(codec.c_str(), &found) != TUTTI_OK)
      throw BadInput(tutti_last_error());
  }
  for (const std::string& word : words(o.densities_text)) {
    char* end = nullptr;
    const double density = std::strtod(word.c_str(), &end);
    if (*end != 0 || !(density > 0 && density <= 1))
      throw BadInput(fmt::format("--density {}: must be more than 0 and at most 1", word));
    o.densities.push_back(density);
  }
  if (o.codecs.empty() && o.densities.empty()) return;
  const TypeAndOp& of = o.combinations.front();
  if (o.combinations.size() > 1 || of.dtype != TUTTI_FLOAT32 || of.op != TUTTI_SUM ||
      o.levels != std::vector{TUTTI_LEVEL_FAST} || !o.workload.empty() || o.in_place)
    throw BadInput("--density and --codec: of float32, sum, fast, one vector, not in place");
  if (o.form != Form::plain)
    throw BadInput(
        "--density and --codec: their calls are plain ones; leave out --nonblocking and "
        "--persistent");
}

void resolve_form(Options& o) {
  if (o.nonblocking + o.persistent + (o.varied != 0) > 1)
    throw BadInput("--nonblocking, --persistent and --vary-counts: one of them at a time");
  if (o.nonblocking) o.form = Form::nonblocking;
  if (o.persistent) o.form = Form::persistent;
  if (o.varied != 0) o.form = Form::varied;
  if (o.form != Form::nonblocking && !o.progress_text.empty())
    throw BadInput("--progress means something with --nonblocking only");
  if (o.form != Form::nonblocking && o.tests)
    throw BadInput("--tests means something with --nonblocking only");
  if (o.form != Form::plain && !o.workload.empty())
    throw BadInput(
        "--workload: its calls are plain ones; leave out --nonblocking, --persistent and "
        "--vary-counts");
  if (!o.progress_text.empty() && o.progress_text != "caller" && o.progress_text != "thread")
    throw BadInput(
        fmt::format("unknown progress '{}': allowed are caller, thread", o.progress_text));
  o.progress_thread = o.progress_text == "thread";
  if (o.algorithms_text.empty()) o.algorithms_text = o.form == Form::plain ? "all" : "auto";
}

// What is measured in other forms than the plain call has no place between calls.
void resolve_data(Options& o) {
  o.data = data_from_name(o.data_text);
  if (o.data == Data::still) return;
  if (on_gpu(o.memory) || o.form != Form::plain || !o.densities.empty() || !o.codecs.empty())
    throw BadInput(
        "--data live: plain calls on memory of the host; leave out --memory cuda, --nonblocking, "
        "--persistent, --vary-counts, --density and --codec");
}

}  // namespace

void add_options(CLI::App& app, Options& o) {
  const Collective& collective = *o.collective;
  app.add_option("-n,--ranks", o.nranks, "ranks to start on this host (a launcher's number wins)")
      ->check(CLI::Range(1, int(Oracle::most_ranks)))
      ->capture_default_str();
  if (collective.sized)
    app.add_option("--sizes", o.sizes_text,
                   fmt::format("bytes of the {}: 4:64M (the default; factor 4), 4,1K,10M; K, M, G "
                               "are binary",
                               collective.blocks ? "longer buffer, made whole blocks" : "vector"));
  app.add_option(
      "--algorithms", o.algorithms_text,
      "all (the default, but auto with --nonblocking, --persistent and --vary-counts), auto "
      "or a comma list");
  app.add_option("--transport", o.transports_text,
                 fmt::format("comma list of {} ({}: ranks are threads)",
                             fmt::join(transport_names(), ", "), thread_transport()))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->capture_default_str();
  if (collective.rooted)
    app.add_option("--root", o.root, "the rank that gives or gets")->capture_default_str();
  if (collective.sized)
    app.add_option("--dtype", o.dtype_text, "element type, or all: one after the other")
        ->capture_default_str();
  if (collective.reduces)
    app.add_option("--op", o.op_text, "operator, or all that the type has")->capture_default_str();
  if (collective.reduces)
    app.add_option("--level", o.levels_text,
                   "what is promised of the bits: fast, layout, canonical, exact; several, or all: "
                   "what they cost")
        ->capture_default_str();
  if (collective.sized)
    app.add_option(
           "--memory", o.memory_text,
           "heap (or host), adopted: heap shared in place, symmetric: memory that all ranks "
           "of a host map, cuda: of GPUs, "
           "cuda-symmetric")
        ->capture_default_str();
  if (collective.sized)
    app.add_option("--data", o.data_text,
                   "still: nobody touches the vectors between calls; live: each rank writes its "
                   "input and reads its result, which is not timed")
        ->capture_default_str();
  if (calls_of(collective).on && collective.sized) {
    app.add_option("--ranks-as", o.ranks_as_text,
                   "with --memory cuda: processes (the default), or threads of one")
        ->type_name("WHAT");
    app.add_option("--ranks-per-gpu", o.ranks_a_gpu,
                   "with --memory cuda: rank / N is the GPU; 0: ranks are spread over all")
        ->type_name("N")
        ->check(CLI::Range(0, int(Oracle::most_ranks)));
    app.add_flag("--graph", o.graph,
                 "with --memory cuda: each batch is captured into a graph, which is replayed");
  }
  if (collective.in_place != InPlace::never && collective.in_place != InPlace::always)
    app.add_flag("--in-place", o.in_place, "the result replaces the input");
  if (is_allreduce(collective)) {
    app.add_option("--workload", o.workload,
                   "instead of sizes, a model's gradients in buckets: resnet50, gpt2, bert-large");
    app.add_option("--density", o.densities_text,
                   "also sparse vectors with this share of the elements: 0.01 or a comma list");
    app.add_option("--codec", o.codecs_text, "also through codecs: bf16, fp8 or both");
  }
  app.add_flag("--nonblocking", o.nonblocking,
               "how much of a call hides behind computing: begin it, compute for as long, wait");
  app.add_flag("--persistent", o.persistent,
               "beside the plain call one that was made once and is started again and again");
  if (collective.sized)
    app.add_option("--vary-counts", o.varied,
                   "beside the plain call calls of N different counts, another one each time")
        ->type_name("N")
        ->check(CLI::Range(2, 1 << 20));
  app.add_option("--progress", o.progress_text,
                 "with --nonblocking: who moves calls on meanwhile, caller or thread (one of the "
                 "library's)")
      ->type_name("WHO");
  app.add_option("--tests", o.tests, "with --nonblocking: calls of tutti_test() while computing")
      ->check(CLI::Range(0, 1000000));
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

void resolve(Options& o) {
  resolve_gpu(o);
  resolve_form(o);
  o.combinations = resolve_combinations(o);
  o.levels = resolve_levels(o.levels_text);
  if (o.root < 0) throw BadInput(fmt::format("--root {}: ranks begin with 0", o.root));
  o.transports = words(o.transports_text);
  for (const std::string& transport : o.transports)
    if (!on_gpu(o.memory) && !contains(transport_names(), transport))
      throw BadInput(fmt::format("unknown transport '{}': allowed are {}", transport,
                                 fmt::join(transport_names(), ", ")));
  if (o.transports.empty()) throw BadInput("--transport: name at least one");
  o.algorithms = resolve_algorithms(o.collective->name, o.algorithms_text);
  resolve_compressed(o);
  resolve_data(o);
  size_t element = 1;
  for (const TypeAndOp& c : o.combinations) element = std::max(element, tutti_dtype_size(c.dtype));
  if (o.sizes_text.empty()) o.sizes_text = fmt::format("{}:64M", std::max<size_t>(4, element));
  if (!o.collective->sized)
    o.sizes = {0};
  else if (o.workload.empty())
    o.sizes = parse_sizes(o.sizes_text, element);
  else if (o.combinations.size() > 1)
    throw BadInput("--workload: name one type and one operator");
  else
    make_workload(o.workload);
  if (!(o.method.seconds > 0)) throw BadInput("--seconds: must be more than 0");
  if (o.json == "-" && o.csv == "-") throw BadInput("only one of --json and --csv can be stdout");
}

void check_ranks(const Options& o, int nranks) {
  if (o.root >= nranks)
    throw BadInput(
        fmt::format("--root {}: the last of {} ranks is {}", o.root, nranks, nranks - 1));
  if (nranks < o.collective->least_ranks)
    throw BadInput(
        fmt::format("{} needs at least {} ranks", o.collective->name, o.collective->least_ranks));
}

}  // namespace tutti::bench
