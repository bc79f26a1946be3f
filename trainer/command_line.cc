#include "trainer/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/checks.h"
#include "trainer/common/error.h"
#include "trainer/device/device.h"
#include "trainer/parallel/mesh.h"
#include "trainer/pipeline/schedule.h"
#include "trainer/sync/straggler.h"
#include "trainer/sync/ways.h"
#include "tutti/tutti.h"

namespace tutti::train {
namespace {

using Words = std::vector<std::string>;

// What is asked for and has defaults that depend on other options, or must not be asked for with
// some.
struct Asked {
  std::optional<int64_t> steps, batch, batch_per_rank, shards, accumulate, warmup, sample;
  std::optional<int64_t> checkpoint_every;
  std::optional<double> rate, least_rate, momentum, weight_decay, topk;
  std::optional<std::string> decay;
  std::optional<int> chunks, servers;
};

using train::within;

constexpr int64_t usual_batch = 8;  // of a worker

void above_zero(const char* option, const std::optional<double>& value, double most) {
  if (value && !(*value > 0 && *value <= most))
    throw BadInput(fmt::format("{} {}: must be above 0 and at most {}", option, *value, most));
}
void within(const char* option, const std::optional<int64_t>& value, double least, double most) {
  if (value) within(option, double(*value), least, most);
}
void only(bool asked, const char* option, bool fits, const std::string& needs) {
  if (asked && !fits) throw BadInput(fmt::format("{} needs {}", option, needs));
}

// Names of the ways to agree for which `like` holds.
template <class Like>
Words ways_that(Like&& like) {
  Words names;
  for (const SyncWay& way : sync_ways())
    if (like(way)) names.emplace_back(way.name);
  return names;
}
std::string ways_that_sum() {
  return fmt::format("--sync {}",
                     fmt::join(ways_that([](const SyncWay& w) { return w.sums_gradients; }), ", "));
}
Words ways_with_servers() {
  return ways_that([](const SyncWay& w) { return w.server != nullptr; });
}
bool takes(const SyncWay& way, const char* option) {
  return std::any_of(way.options.begin(), way.options.end(),
                     [&](const WayOption& own) { return std::string_view(own.name) == option; });
}

void one_of(const char* option, const std::string& word, const Words& allowed) {
  if (std::find(allowed.begin(), allowed.end(), word) == allowed.end())
    throw BadInput(fmt::format("{} {}: allowed are {}", option, word, fmt::join(allowed, ", ")));
}

// Names of the library's algorithms for the collective, and auto.
Words algorithms_of(const std::string& collective) {
  Words names{"auto"};
  tutti_algorithm_info info{};
  info.size = sizeof info;
  for (size_t i = 0; tutti_algorithm_get(i, &info) == TUTTI_OK; ++i) {
    if (collective == info.collective) names.emplace_back(info.name);
    info.size = sizeof info;
  }
  return names;
}

bool power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// Options of some ways to agree only.
void declare_ways(CLI::App& app, Options& o) {
  for (const SyncWay& way : sync_ways())
    for (const WayOption& own : way.options) {
      const auto [at, first] = o.of_ways.emplace(own.name, own.value);
      if (!first) continue;  // declared by an earlier way
      std::visit(
          [&](auto& value) {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>)
              app.add_flag(own.name, value, own.about);
            else
              app.add_option(own.name, value, own.about);
          },
          at->second);
    }
}

// An option without effect was not meant, so it is refused.
void check_ways(const CLI::App& app, const Options& o) {
  const SyncWay* chosen = find_sync_way(o.sync);
  for (const SyncWay& way : sync_ways())
    for (const WayOption& own : way.options)
      if (app.count(own.name) > 0 && !(chosen && takes(*chosen, own.name)))
        throw BadInput(fmt::format(
            "{} needs --sync {}", own.name,
            fmt::join(ways_that([&](const SyncWay& w) { return takes(w, own.name); }), " or ")));
  only(app.count("--servers") > 0, "--servers", chosen && chosen->server,
       fmt::format("--sync {}", fmt::join(ways_with_servers(), ", ")));
  for (const char* option : {"--overlap", "--first-bucket", "--bucket"})
    only(app.count(option) > 0, option, chosen && chosen->sums_gradients, ways_that_sum());
}

// Values that are no values, and what has the options of another run.
void check_given(const CLI::App& app) {
  const std::pair<std::string, Words> alone[] = {
      {"--replay", {"--device"}},
      {"--generate", {"--init", "--prompt", "--seed", "--device", "--threads"}}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    for (const std::string& value : option->results())
      if (value.empty()) throw BadInput(fmt::format("{} has an empty value", option->get_name()));
    const std::string name = option->get_name();
    for (const auto& [which, others] : alone)
      if (app.count(which) > 0 && name != which &&
          std::find(others.begin(), others.end(), name) == others.end())
        throw BadInput(fmt::format("{} has the options of the run that it is of, and {}, not {}",
                                   which, fmt::join(others, ", "), name));
  }
}

void declare(CLI::App& app, Options& o, Asked& asked) {
  const auto what = [&](const char* group) { app.option_defaults()->group(group); };
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  static std::string config;  // with_config() has put what it has in its place
  app.add_option("--config", config,
                 "a file of options, steps = 500 a line; those of the command line come after it");
  what("What is learnt");
  app.add_option(
      "--model", o.model,
      "gpt, rnn, seq2seq, mlp, cnn or quadratic, with :SIZE where it has several (gpt:tiny, "
      "gpt:small, gpt:124m, cnn:tiny, cnn:inception, cnn:resnet50, quadratic:1000)");
  app.add_option("--layers", o.layers, "layers, instead of the size's own");
  app.add_option("--width", o.width, "width of the layers");
  app.add_option("--heads", o.heads, "attention heads");
  app.add_option("--context", o.context, "bytes of text in a sample");
  app.add_option("--dropout", o.dropout, "of gpt and rnn");
  app.add_option(
      "--data", o.data,
      "text:PATH (a file or folder; text: is tutti's own sources), idx:FOLDER (MNIST's format), "
      "digits (drawn)");
  app.add_option("--seed", o.seed, "of parameters, of the order of the data, of everything random")
      ->check([](const std::string& text) {
        // CLI11 takes the largest number for any that is larger.
        uint64_t seed = 0;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), seed);
        return read.ec == std::errc::result_out_of_range ? text + " is more than 64 bits hold"
                                                         : std::string();
      })
      ->check([](const std::string& text) {
        const bool number = text.find_first_not_of("0123456789") == std::string::npos;
        return number ? "" : text + " is no whole number of 0 or more";
      });

  app.add_option("--dtype", o.dtype, "of parameters and gradients: float32 or float64");

  app.add_option("--device", o.device,
                 "what computes: cpu, cuda (each rank takes the next GPU of its host) or cuda:N");

  app.add_option("--threads", o.threads, "that compute, a rank; default: 1");

  what("How much");
  app.add_option("--steps", asked.steps, "updates of the parameters");
  app.add_option("--batch", asked.batch, "samples of a step over all workers");
  app.add_option("--batch-per-rank", asked.batch_per_rank, "samples of a step of one worker");
  app.add_option("--shards", asked.shards,
                 "pieces of a step; default: --accumulate for each worker");
  app.add_option("--accumulate", asked.accumulate,
                 "passes of a worker before gradients are exchanged");
  app.add_option("--optimizer", o.optimizer, "sgd, adamw or lamb");
  app.add_option("--lr", asked.rate, "rate; default: the optimizer's own");
  app.add_option("--warmup", asked.warmup, "steps until the full rate");
  app.add_option("--decay", asked.decay,
                 "of the rate after that, over the rest of the steps: constant, cosine or linear");
  app.add_option("--min-lr", asked.least_rate, "rate that the decay ends at; default: 0");
  app.add_option("--momentum", asked.momentum, "of sgd");
  app.add_option("--weight-decay", asked.weight_decay, "of adamw and lamb");

  app.add_option(
      "--clip", o.clip,
      "shorten longer gradients to this length, and make no step with one that overflowed");

  what("Who works, and how they agree");
  app.add_option("--dp", o.dp, "copies of the model, each learning from its share of a step");
  app.add_option("--tp", o.tp, "ranks among which the work of each layer is divided");
  app.add_option("--pp", o.pp, "stages among which the layers are divided");
  app.add_option("--grid-order", o.grid_order,
                 "which ranks are neighbours: dp, pp and tp, outermost first");
  app.add_flag("--sequence-parallel", o.sequence_parallel,
               "with --tp, divide what lies between the divided layers of gpt along the sequence");
  app.add_option(
      "--rnn-chunk", o.rnn_chunk,
      "bytes that a recurrent layer works on at a time; with --tp the ranks' layers work "
      "on different ones (default: 8)");
  app.add_option("--conv-split", o.conv_split,
                 "with --tp, divide convolutions by output channels, by input channels, or "
                 "pictures into strips: output, input or strips");
  app.add_option("--schedule", o.schedule,
                 "of the stages: naive, gpipe, 1f1b, interleaved or zb-h1; default: 1f1b");
  app.add_option("--micro-batches", o.micro_batches,
                 "pieces of a step that follow each other through the stages, or auto: as many as "
                 "turn out quickest");
  app.add_option("--chunks", asked.chunks,
                 "of interleaved: parts of the layers that each stage has");
  app.add_option(
      "--stages", o.stages,
      "layers of each part: profile (parts take equal time), even, or 2,3,1 for example");
  app.add_option("--stage-widths", o.stage_widths,
                 "ranks that hold each stage and take its micro-batches by turns: 1,2,1 gives the "
                 "middle one of three stages two; powers of two");
  app.add_flag("--recompute", o.recompute,
               "keep only what a stage is given, and compute forward again for backward");
  app.add_flag("--portals,!--no-portals", o.portals,
               "send what skips stages straight to where it is needed");
  app.add_option("--stage-sleep", o.stage_sleep)->delimiter(',')->expected(2)->group("");
  app.add_option("--stage-load", o.stage_load)->delimiter(',')->group("");
  Words syncs = ways_that([](const SyncWay&) { return true; });
  const std::string last = std::move(syncs.back());
  syncs.pop_back();
  app.add_option("--sync", o.sync, fmt::format("{} or {}", fmt::join(syncs, ", "), last));
  app.add_option("--algorithm", o.algorithm,
                 "of the allreduce (of the reduce_scatter with --zero 1)");
  app.add_option("--level", o.level,
                 "fast or canonical: the same bits for every --dp whose workers have 1, 2, 4 ... "
                 "of the --shards");
  app.add_option("--transport", o.transport, "transports that may be used, shm,tcp for example");
  app.add_flag("--overlap,!--no-overlap", o.overlap,
               "exchange gradients while others are computed");
  app.add_option("--wire", o.wire, "fp32 or bf16: what gradients are on the wire");
  app.add_option("--topk", asked.topk, "send only this fraction of a gradient, the largest values");
  app.add_option("--zero", o.zero, "1: each worker keeps a share of the optimizer's state");
  app.add_option("--first-bucket", o.first_bucket_mib, "MiB after which the first bucket closes");
  app.add_option("--bucket", o.bucket_mib, "MiB after which the others do");
  app.add_option("--servers", asked.servers, "parameter servers, besides the workers");
  declare_ways(app, o);
  app.add_option(
      "--straggler", o.straggler,
      "RANK:FACTOR: that worker takes so many times as long; or jitter: each takes, step "
      "by step, randomly longer, twice as long on average");
  app.add_option("--log", o.log, "file for the servers' events");
  app.add_option("--replay", o.replay, "repeat a run from such a file, in one process");

  what("What is kept and shown");
  app.add_option("--checkpoint", o.checkpoint, "folder of the checkpoints");
  app.add_option("--checkpoint-every", asked.checkpoint_every, "steps between two of them");
  app.add_flag(
      "--resume", o.resume,
      "go on from the last one, with its --batch, --lr, --warmup, --decay, --min-lr, --steps and, "
      "where --dp divides them, --shards unless others are given");
  app.add_option("--init", o.init,
                 "begin with the weights of another run's checkpoint: its folder, or that of all");
  app.add_option("--json", o.json, "one object a step to this file, or to stdout with -");
  app.add_option("--csv", o.csv, "one line a step to this file, the first one with the names");
  app.add_option("--report", o.report, "a page with curves and time lines, HTML");
  app.add_option("--trace", o.trace, "a trace for Perfetto or chrome://tracing");
  app.add_flag("--keep-going", o.keep_going,
               "train on when the loss or the gradient is no number any more");
  app.add_flag("--dry-run", o.dry_run, "only say who would hold and send what");
  app.add_option("--evaluate-every", o.evaluate_every,
                 "steps between two validations; 0: at the end");
  app.add_option("--sample", asked.sample, "bytes of text to write at the end");
  app.add_option("--generate", o.generate,
                 "bytes of text to write with the model of --init, in place of a run");
  app.add_option("--prompt", o.prompt, "what that text begins with");
  app.add_option("--timeout", o.timeout_ms,
                 "milliseconds after which a rank gives up waiting for another; default: it waits "
                 "until that one ends");
  app.add_flag("--hash", o.hash, "a digest of the parameters with every step");
  app.add_option("--die-at", o.die_at)->group("");
  app.add_option("--sleep-at", o.sleep_at)->group("");
}

void check_model(const Options& o) {
  one_of("--model", o.model_name(), {"gpt", "rnn", "seq2seq", "mlp", "cnn", "quadratic"});
  for (const auto& [name, value] : {std::pair{"--layers", o.layers},
                                    {"--width", o.width},
                                    {"--heads", o.heads},
                                    {"--context", o.context}})
    within(name, value, 1, 1 << 20);
  within("--dropout", o.dropout, 0, 0.95);
  within("--threads", o.threads, 1, 1024);
  if (!Device::is_name(o.device))
    throw BadInput(fmt::format("--device {}: allowed are cpu, cuda and cuda:N", o.device));
}

void check_amounts(const Options& o) {
  within("--shards", double(o.shards), 1, 65536);
  within("--warmup", double(o.warmup), 0, 1e9);
  within("--momentum", o.momentum, 0, 1);
  within("--weight-decay", o.weight_decay, 0, 10);
  if (o.shards % o.dp != 0)
    throw BadInput(
        fmt::format("--shards {} cannot be divided among --dp {} workers", o.shards, o.dp));
  one_of("--decay", o.decay, {"constant", "cosine", "linear"});
  within("--min-lr", o.least_rate, 0, o.rate);
  only(o.decay != "constant", "--decay", o.steps > o.warmup,
       fmt::format("more --steps than the {} of --warmup, not {}", o.warmup, o.steps));
  above_zero("--clip", o.clip, 1e30);
  one_of("--optimizer", o.optimizer, {"sgd", "adamw", "lamb"});
}

void check_agreement(const Options& o) {
  one_of("--dtype", o.dtype, {"float32", "float64"});
  one_of("--wire", o.wire, {"fp32", "bf16"});
  one_of("--level", o.level, {"fast", "canonical"});
  within("--zero", o.zero, 0, 1);
  within("--first-bucket", o.first_bucket_mib, 1e-6, 1e5);
  within("--bucket", o.bucket_mib, 1e-6, 1e5);
  const SyncWay& way = sync_way(o);
  if (way.server) within("--servers", o.servers, 1, 64);
  if (o.timeout_ms) within("--timeout", double(*o.timeout_ms), 100, 1e9);
  one_of("--algorithm", o.algorithm, algorithms_of(o.zero ? "reduce_scatter" : "allreduce"));
  const std::string sums = ways_that_sum();
  const bool synchronous = way.sums_gradients;
  only(o.dtype != "float32", "--dtype float64", synchronous && o.topk == 0 && o.wire == "fp32",
       sums + " with whole gradients");
  only(o.clip.has_value(), "--clip", synchronous, sums);
  only(o.topk > 0, "--topk", o.tp == 1,
       "--tp 1: ranks that divide layers would choose differently of what they share");
  only(o.zero, "--zero 1", synchronous, sums);
  only(o.topk > 0, "--topk", synchronous && !o.zero, sums + " without --zero");
  only(o.wire != "fp32", "--wire bf16", synchronous && !o.zero && o.topk == 0,
       sums + " without --zero and --topk");
  only(o.level != "fast", "--level canonical", synchronous && o.topk == 0 && o.wire == "fp32",
       sums + " with whole fp32 gradients");
  if (o.canonical()) {
    if (o.dp > 1 && !power_of_two(o.shards / o.dp))
      throw BadInput(
          fmt::format("--level canonical: each worker needs 1, 2, 4, 8 ... of the --shards, not {}",
                      o.shards / o.dp));
    const Words able = o.zero
                           ? Words{"auto", "direct"}
                           : Words{"auto",        "butterfly",     "halving-doubling", "two-shot",
                                   "round-robin", "master-worker", "all-to-all"};
    one_of(o.level == "canonical" ? "--level canonical with --algorithm"
                                  : "--stage-widths with --algorithm",
           o.algorithm, able);
  }
  const Words others =
      ways_that([](const SyncWay& w) { return w.allreduces && !w.sums_gradients; });
  only(o.algorithm != "auto", "--algorithm", way.allreduces && o.topk == 0,
       fmt::format("{} without --topk, or {}", sums, fmt::join(others, ", ")));
  only(!o.log.empty(), "--log", o.has_servers(),
       fmt::format("a parameter server (--sync {})", fmt::join(ways_with_servers(), ", ")));
  only(!o.log.empty(), "--log", o.threads == 1,
       "--threads 1: several may round otherwise in the replay");
  if (way.check) way.check(o);
}

void check_grid(const Options& o) {
  within("--dp", o.dp, 1, 1024);
  within("--tp", o.tp, 1, 1024);
  within("--pp", o.pp, 1, 1024);
  within("--rnn-chunk", o.rnn_chunk, 1, 1e6);
  one_of("--conv-split", o.conv_split, {"output", "input", "strips"});
  const Mesh mesh(o.dp, o.widths(), o.tp, o.grid_order);
  if (mesh.ranks() > 1024)
    throw BadInput(
        fmt::format("--dp {} x --tp {} x --pp {}{} are {} ranks: at most 1024", o.dp, o.tp, o.pp,
                    o.stage_widths.empty() ? "" : " of widths " + o.stage_widths, mesh.ranks()));
  only(!o.straggler.empty(), "--straggler", o.dp == mesh.ranks() && o.dp > 1 && o.schedule.empty(),
       "--dp of 2 or more, without --tp and --pp");
  Straggler::of(o);
  if (o.dp != mesh.ranks() && !sync_way(o).sums_gradients)
    throw BadInput(
        fmt::format("--tp {} and --pp {} need {}, not {}", o.tp, o.pp, ways_that_sum(), o.sync));
}

void check_stage_widths(const Options& o) {
  if (o.stage_widths.empty()) return;
  if (o.pp < 2)
    throw BadInput("--stage-widths needs --pp of at least 2: --dp has copies of a model");
  if (o.schedule != "gpipe" && o.schedule != "1f1b")
    throw BadInput(
        fmt::format("--stage-widths needs --schedule gpipe or 1f1b, not {}", o.schedule));
  if (o.micro_batches == "auto")
    throw BadInput("--stage-widths needs a number of --micro-batches, not auto");
  if (o.wire != "fp32" || o.topk > 0)
    throw BadInput("--stage-widths needs whole gradients: neither --wire bf16 nor --topk");
  if (o.batch / o.dp < o.widths().widest())
    throw BadInput(
        fmt::format("--batch {} over --dp {} is less than a sample for each of the {} "
                    "ranks of a stage",
                    o.batch, o.dp, o.widths().widest()));
}

void check_replicas_shards(const Options& o, int64_t count) {
  const int widest = o.widths().widest();
  if (widest > 1 && (!power_of_two(count) || count < widest))
    throw BadInput(fmt::format("--micro-batches {}: --stage-widths {} needs {}, {}, {} ...", count,
                               o.stage_widths, widest, 2 * widest, 4 * widest));
}

// The values of --resume's run where none are asked for. Returns its number of shards if known and
// not asked for.
std::optional<int64_t> continue_run(const Options& o, Asked& asked) {
  if (!o.resume || o.checkpoint.empty()) return {};
  const std::optional<Checkpoint> was = described_checkpoint(o.checkpoint);
  if (!was) return {};
  const auto take = [](const nlohmann::json& from, const char* name, auto& to) {
    using Value = typename std::decay_t<decltype(to)>::value_type;
    constexpr bool text = std::is_same_v<Value, std::string>;
    if (to || !from.contains(name) || !(text ? from[name].is_string() : from[name].is_number()))
      return;
    to = from[name].get<Value>();
  };
  if (!asked.batch_per_rank) take(was->identity, "batch", asked.batch);
  take(was->settings, "lr", asked.rate);
  take(was->settings, "warmup", asked.warmup);
  take(was->settings, "decay", asked.decay);
  if (asked.decay != "constant") take(was->settings, "min-lr", asked.least_rate);
  take(was->settings, "steps", asked.steps);
  std::optional<int64_t> shards;
  if (!asked.shards && !asked.accumulate && o.micro_batches.empty())
    take(was->settings, "shards", shards);
  return shards;
}

// Whether a step of the run can be divided into as many shards as it was.
bool can_have_shards(const Options& o, int64_t shards) {
  if (shards < 1 || shards % o.dp != 0 || !sync_way(o).sums_gradients) return false;
  const int64_t each = shards / o.dp;
  if (o.level == "canonical" && o.dp > 1 && !power_of_two(each)) return false;
  if (!o.pipelined()) return true;
  const int widest = o.widths().widest();
  return each <= o.batch / o.dp && (o.schedule != "interleaved" || each % o.pp == 0) &&
         (widest == 1 || (power_of_two(each) && each >= widest));
}

// Fills in the defaults that depend on the stages, and the number of shards. `before`: of the run
// that goes on.
void settle_pipeline(Options& o, const Asked& asked, const std::optional<int64_t>& before) {
  if (!o.schedule.empty()) one_of("--schedule", o.schedule, pipeline_schedules());
  if (o.schedule.empty() && (o.pp > 1 || o.recompute)) o.schedule = "1f1b";
  const bool interleaved = o.schedule == "interleaved";
  o.chunks = asked.chunks.value_or(interleaved ? 2 : 1);
  within("--chunks", o.chunks, 1, 64);
  if (!o.pipelined()) {
    if (o.micro_batches == "auto") throw BadInput("--micro-batches auto needs --pp of at least 2");
  } else if (!sync_way(o).sums_gradients) {
    throw BadInput(fmt::format("a pipeline needs {}, not {}", ways_that_sum(), o.sync));
  }
  if (!interleaved && o.chunks > 1)
    throw BadInput(fmt::format("--chunks {} needs --schedule interleaved, not {}", o.chunks,
                               o.schedule.empty() ? "none" : o.schedule));
  if (asked.accumulate && (o.pipelined() || !o.micro_batches.empty()))
    throw BadInput("--accumulate and --micro-batches are the same: give one of them");
  if (asked.shards && (o.pipelined() || !o.micro_batches.empty()))
    throw BadInput(fmt::format(
        "--shards {}: the shards of a pipeline are the --micro-batches of all --dp copies",
        *asked.shards));
  const int64_t most = o.batch / o.dp;
  check_stage_widths(o);
  int64_t count = 4L * o.widths().ranks();  // keeps the pipeline busy for 80 % of the time
  if (o.micro_batches.empty() || o.micro_batches == "auto") {
    const bool as_before = before && can_have_shards(o, *before);
    o.shards = as_before ? *before : asked.shards.value_or(o.dp * asked.accumulate.value_or(1));
    if (!o.pipelined()) return;
    count = std::min(count, most);
    if (interleaved) count = count / o.pp * o.pp;
    if (o.widths().widest() > 1) count = int64_t(std::bit_floor(uint64_t(count)));
    count = std::max<int64_t>(count, interleaved ? o.pp : 1);
    if (as_before) count = *before / o.dp;
  } else {
    char* end = nullptr;
    count = std::strtoll(o.micro_batches.c_str(), &end, 10);
    if (*end) throw BadInput(fmt::format("--micro-batches {}: is no number", o.micro_batches));
    within("--micro-batches", double(count), 1, 65536);
  }
  if (o.micro_batches == "auto" && o.resume)
    throw BadInput("--micro-batches auto with --resume: give the number that the run had");
  if (interleaved && count % o.pp != 0)
    throw BadInput(fmt::format(
        "--micro-batches {}: the schedule interleaved needs a multiple of --pp {}", count, o.pp));
  if (o.pipelined() && count > most)
    throw BadInput(fmt::format("--batch {} over --dp {} cannot be divided into {} micro-batches",
                               o.batch, o.dp, count));
  check_replicas_shards(o, count);
  o.shards = count * o.dp;
  if (o.stages != "profile" && o.stages != "even") {
    const std::vector<size_t> counts = o.stage_layers();
    if (counts.size() != size_t(o.pp) * size_t(o.chunks))
      throw BadInput(fmt::format("--stages {} lists {} parts, but --pp {} with {} chunk{} has {}",
                                 o.stages, counts.size(), o.pp, o.chunks, o.chunks > 1 ? "s" : "",
                                 o.pp * o.chunks));
  }
}

// Amounts by themselves: those that other checks and defaults are computed from.
void check_asked(const Options& o, const Asked& asked) {
  within("--steps", asked.steps, 1, 1e12);
  within("--batch", asked.batch, 1, 1e7);
  within("--batch-per-rank", asked.batch_per_rank, 1, 1e6);
  within("--shards", asked.shards, 1, 65536);
  within("--accumulate", asked.accumulate, 1, 65536);
  above_zero("--lr", asked.rate, 1e6);
  above_zero("--topk", asked.topk, 1);
  const bool fixed_workers = !sync_way(o).sums_gradients;
  if (fixed_workers && (asked.accumulate.value_or(1) != 1 || asked.shards.value_or(o.dp) != o.dp))
    throw BadInput(
        fmt::format("--accumulate and --shards need {}, not {}", ways_that_sum(), o.sync));
  if (asked.batch && asked.batch_per_rank)
    throw BadInput("--batch and --batch-per-rank say the same: give one of them");
  if (asked.shards && asked.accumulate)
    throw BadInput("--shards and --accumulate say the same: give one of them");
}

// An option without effect was not meant, so it is refused.
void check_effect(const CLI::App& app, const Options& o, const Asked& asked) {
  only(asked.least_rate.has_value(), "--min-lr", o.decay != "constant", "--decay cosine or linear");
  only(asked.momentum.has_value(), "--momentum", o.optimizer == "sgd", "--optimizer sgd");
  only(asked.weight_decay.has_value(), "--weight-decay", o.optimizer != "sgd",
       "--optimizer adamw or lamb");
  only(app.count("--stages") > 0, "--stages", o.pipelined(), "--pp of at least 2");
  only(app.count("--portals") > 0, "--portals", o.pipelined(), "--pp of at least 2");
  only(app.count("--conv-split") > 0, "--conv-split", o.model_name() == "cnn" && o.tp > 1,
       "--model cnn and --tp of 2 or more");
  only(app.count("--prompt") > 0, "--prompt", o.generate.has_value(), "--generate");
  only(asked.checkpoint_every.has_value(), "--checkpoint-every", !o.checkpoint.empty(),
       "--checkpoint FOLDER");
  only(asked.sample.value_or(0) > 0, "--sample", o.model_name() == "gpt" || o.model_name() == "rnn",
       "--model gpt or rnn");
  const std::pair<const char*, const std::string*> outputs[] = {{"--json", &o.json},
                                                                {"--csv", &o.csv},
                                                                {"--report", &o.report},
                                                                {"--trace", &o.trace},
                                                                {"--log", &o.log}};
  for (const auto& [option, path] : outputs)
    for (const auto& [other, same] : outputs)
      if (option != other && !path->empty() && *path == *same)
        throw BadInput(fmt::format("{} and {} cannot both be {}", option, other, *path));
}

void check_kept(const Options& o) {
  within("--checkpoint-every", double(o.checkpoint_every), 1, 1e12);
  within("--evaluate-every", double(o.evaluate_every), 0, 1e12);
  within("--sample", double(o.sample), 0, 1e6);
  if (o.evaluate_every > 0 && !sync_way(o).common_steps)
    throw BadInput(fmt::format(
        "--evaluate-every with --sync {}: its workers do not make the same steps", o.sync));
  within("--generate", o.generate, 1, 1e6);
  only(o.generate.has_value(), "--generate", !o.init.empty(), "--init FOLDER");
  if (o.resume && o.checkpoint.empty()) throw BadInput("--resume needs --checkpoint FOLDER");
  if (o.resume && !o.init.empty())
    throw BadInput("--init with --resume: a run that goes on has its weights");
  if (o.resume && !o.log.empty())
    throw BadInput("--log with --resume: a log that can be replayed is of a whole run");
}

}  // namespace

std::vector<std::string> with_config(const std::vector<std::string>& arguments) {
  const std::string option = "--config";
  std::vector<std::string> from_files, rest;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const bool joined = arguments[i].starts_with(option + "=");
    if (!joined && arguments[i] != option) {
      rest.push_back(arguments[i]);
      continue;
    }
    if (!joined && i + 1 == arguments.size()) throw BadInput("--config needs the name of a file");
    const std::string path = joined ? arguments[i].substr(option.size() + 1) : arguments[++i];
    try {
      std::error_code error;
      if (std::filesystem::is_directory(path, error)) throw CLI::FileError(path + " is a folder");
      for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_file(path)) {
        if (!item.parents.empty() || item.name == "config")
          throw BadInput(fmt::format("{} {}: lines are NAME = VALUE, of options but {}", option,
                                     path, option));
        from_files.push_back(fmt::format("--{}={}", item.name, fmt::join(item.inputs, ",")));
      }
    } catch (const CLI::Error& error) {
      throw BadInput(fmt::format("{}: {}", option, error.what()));
    }
  }
  from_files.insert(from_files.begin(), arguments.front());
  from_files.insert(from_files.end(), rest.begin(), rest.end());
  return from_files;
}

Options parse_options(std::vector<std::string> arguments) {
  Options o;
  Asked asked;
  CLI::App app{"Trains a model on several workers that exchange what they learn through tutti."};
  app.name("tutti-train");
  declare(app, o, asked);
  try {
    std::vector<char*> argv;
    for (std::string& word : arguments) argv.push_back(word.data());
    app.parse(int(argv.size()), argv.data());
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    throw BadInput(error.what());
  }
  check_given(app);
  check_ways(app, o);
  check_model(o);
  one_of("--sync", o.sync, ways_that([](const SyncWay&) { return true; }));
  if (sync_way(o).server) o.servers = asked.servers.value_or(1);
  check_grid(o);
  check_asked(o, asked);
  const std::optional<int64_t> shards = continue_run(o, asked);
  o.batch = asked.batch.value_or(asked.batch_per_rank.value_or(usual_batch) * o.dp);
  if (o.batch < o.dp)
    throw BadInput(fmt::format("--batch {} is less than a sample for each of the --dp {} workers",
                               o.batch, o.dp));
  o.topk = asked.topk.value_or(0);
  settle_pipeline(o, asked, shards);
  const std::string name = o.model_name();
  const bool text = name == "gpt" || name == "rnn" || name == "seq2seq";
  if (o.data.empty()) o.data = text ? "text:" : name == "quadratic" ? "noise" : "digits";
  o.steps = asked.steps.value_or(name == "gpt" ? 300 : 200);
  o.rate = asked.rate.value_or(o.optimizer == "sgd" ? 0.1 : o.optimizer == "lamb" ? 0.01 : 0.002);
  o.warmup = asked.warmup.value_or(o.warmup);
  o.decay = asked.decay.value_or(o.decay);
  o.least_rate = asked.least_rate.value_or(o.least_rate);
  o.momentum = asked.momentum.value_or(o.momentum);
  o.weight_decay = asked.weight_decay.value_or(o.weight_decay);
  o.sample = asked.sample.value_or(o.sample);
  o.checkpoint_every = asked.checkpoint_every.value_or(o.checkpoint_every);
  check_amounts(o);
  check_agreement(o);
  check_kept(o);
  check_effect(app, o, asked);
  return o;
}

}  // namespace tutti::train
