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
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/error.h"
#include "trainer/device/device.h"
#include "trainer/models/shape.h"
#include "trainer/parallel/loss_scale.h"
#include "trainer/parallel/mesh.h"
#include "trainer/pipeline/schedule.h"
#include "trainer/report/screen.h"
#include "trainer/sync/straggler.h"
#include "trainer/sync/ways.h"
#include "tutti/tutti.h"

namespace tutti::train {
namespace {

using Words = std::vector<std::string>;

// Names of the ways to agree for which `like` holds; of all without it.
Words ways_that(const std::function<bool(const SyncWay&)>& like = nullptr) {
  Words names;
  for (const SyncWay& way : sync_ways())
    if (!like || like(way)) names.emplace_back(way.name);
  return names;
}
std::string all_ways() {
  const Words names = ways_that();
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}
bool takes(const SyncWay& way, const char* option) {
  return std::any_of(way.options.begin(), way.options.end(),
                     [&](const WayOption& own) { return std::string_view(own.name) == option; });
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

bool power_of_two(int64_t n) { return n > 0 && std::has_single_bit(uint64_t(n)); }

// ---------------------------------------------------------------- values

// What an option may be: calls that throw BadInput for any other value.
auto between(double least, double most) {
  return [=](const std::string& option, auto value) {
    within(option.c_str(), double(value), least, most);
  };
}
auto above_zero(double most) {
  return [=](const std::string& option, double value) {
    if (!(value > 0 && value <= most))
      throw BadInput(fmt::format("{} {}: must be above 0 and at most {}", option, value, most));
  };
}
auto one_of(const Words& words) {
  return [=](const std::string& option, const std::string& value) {
    if (std::find(words.begin(), words.end(), value) == words.end())
      throw BadInput(fmt::format("{} {}: allowed are {}", option, value, fmt::join(words, ", ")));
  };
}

// ---------------------------------------------------------------- the command line

// What cannot be, or has no effect: that was not meant, so it is refused.
struct Rule {
  bool broken;
  std::string says;
};
Rule needs(bool asked, const std::string& option, bool fits, const std::string& what) {
  return {asked && !fits, fmt::format("{} needs {}", option, what)};
}

class CommandLine {
 public:
  CommandLine() {
    app_.name("tutti-train");
    app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
#define OPTION(type, field, value, ...) add(o_.field, __VA_ARGS__);
#define GROUP(name) app_.option_defaults()->group(name);
#define WAYS() declare_ways();
#include "trainer/common/options.inc"
#undef OPTION
#undef GROUP
#undef WAYS
    app_.get_option("--stage-sleep")->delimiter(',')->expected(2);
    app_.get_option("--stage-load")->delimiter(',');
    app_.get_option("--seed")->check([](const std::string& text) {
      uint64_t seed = 0;  // CLI11 takes the largest number for any that is larger
      const char* const end = text.data() + text.size();
      const auto read = std::from_chars(text.data(), end, seed);
      return read.ec == std::errc() && read.ptr == end
                 ? std::string()
                 : text + " is no whole number of 0 or more in 64 bits";
    });
  }
  Options parsed(Words arguments) {
    try {
      std::vector<char*> argv;
      for (std::string& word : arguments) argv.push_back(word.data());
      app_.parse(int(argv.size()), argv.data());
    } catch (const CLI::CallForHelp&) {
      std::fputs(app_.help().c_str(), stdout);
      std::exit(0);
    } catch (const CLI::ParseError& error) {
      throw BadInput(error.what());
    }
    check_values();
    check_ways();
    // Defaults that depend on other options.
    const Family& family = family_of(o_.model_name());
    constexpr const char* usual[] = {"text:", "digits", "noise"};  // by Family::Source
    if (o_.data.empty()) o_.data = usual[int(family.learns_from)];
    if (!given("--servers")) o_.servers = sync_way(o_).server ? 1 : 0;
    if (!given("--steps")) o_.steps = family.steps;
    if (!given("--lr"))
      o_.rate = o_.optimizer == "sgd" ? 0.1 : o_.optimizer == "lamb" ? 0.01 : 0.002;
    if (!given("--batch")) o_.batch = o_.batch_per_rank * o_.dp;
    if (o_.schedule.empty() && (o_.pp > 1 || o_.recompute)) o_.schedule = "1f1b";
    if (!given("--chunks")) o_.chunks = o_.schedule == "interleaved" ? 2 : 1;
    continue_run();
    settle_pipeline();
    check_rules();
    return o_;
  }
  bool has(const std::string& option) const { return app_.get_option_no_throw(option) != nullptr; }

 private:
  // An option, a flag if the value is a bool.
  template <class T>
  CLI::Option* add(T& value, const std::string& name, const std::string& about) {
    if constexpr (std::is_same_v<T, bool>)
      return app_.add_flag(name, value, about);
    else
      return app_.add_option(name, value, about);
  }
  template <class T, class Allowed>
  void add(T& value, const std::string& name, const std::string& about, const Allowed& allowed) {
    checks_.push_back([&value, option = add(value, name, about), allowed] {
      if (option->count() == 0) return;
      if constexpr (requires { value.value(); })
        allowed(option->get_name(), value.value());
      else
        allowed(option->get_name(), value);
    });
  }
  bool given(const std::string& option) const { return app_.count(option) > 0; }

  // Options of some ways to agree only.
  void declare_ways() {
    for (const SyncWay& way : sync_ways())
      for (const WayOption& own : way.options) {
        const auto [at, first] = o_.of_ways.emplace(own.name, own.value);
        if (first)  // else an earlier way has declared it
          std::visit([&](auto& value) { add(value, own.name, own.about); }, at->second);
      }
  }
  // Each value by itself, and what has the options of another run.
  void check_values() const {
    const std::pair<std::string, Words> alone[] = {
        {"--replay", {"--device"}},
        {"--generate", {"--init", "--prompt", "--seed", "--device", "--threads"}}};
    for (const CLI::Option* option : app_.get_options()) {
      if (option->count() == 0) continue;
      for (const std::string& value : option->results())
        if (value.empty()) throw BadInput(fmt::format("{} has an empty value", option->get_name()));
      const std::string name = option->get_name();
      for (const auto& [which, others] : alone)
        if (given(which) && name != which &&
            std::find(others.begin(), others.end(), name) == others.end())
          throw BadInput(fmt::format("{} has the options of the run that it is of, and {}, not {}",
                                     which, fmt::join(others, ", "), name));
    }
    for (const auto& check : checks_) check();
    family_of(o_.model_name());  // throws for an unknown one
    if (!Device::is_name(o_.device))
      throw BadInput(fmt::format("--device {}: allowed are cpu, cuda and cuda:N", o_.device));
  }
  // The options of other ways to agree. One without effect was not meant, so it is refused.
  void check_ways() const {
    for (const SyncWay& way : sync_ways())
      for (const WayOption& own : way.options)
        if (given(own.name) && !takes(sync_way(o_), own.name))
          throw BadInput(fmt::format(
              "{} needs --sync {}", own.name,
              fmt::join(ways_that([&](const SyncWay& w) { return takes(w, own.name); }), " or ")));
  }
  // The values of --resume's run where none are given.
  void continue_run() {
    if (!o_.resume || o_.checkpoint.empty()) return;
    const std::optional<Checkpoint> was = described_checkpoint(o_.checkpoint);
    if (!was) return;
    const auto take = [](const nlohmann::json& from, const char* name, auto& to) {
      using Value = std::decay_t<decltype(to)>;
      constexpr bool text = std::is_same_v<Value, std::string>;
      if (from.contains(name) && (text ? from[name].is_string() : from[name].is_number()))
        to = from[name].get<Value>();
    };
    const auto setting = [&](const std::string& name, auto& to) {
      if (!given("--" + name)) take(was->settings, name.c_str(), to);
    };
    if (!given("--batch") && !given("--batch-per-rank")) take(was->identity, "batch", o_.batch);
    setting("lr", o_.rate);
    setting("warmup", o_.warmup);
    setting("decay", o_.decay);
    if (o_.decay != "constant") setting("min-lr", o_.least_rate);
    setting("steps", o_.steps);
    setting("precision", o_.precision);
    if (given("--shards") || given("--accumulate") || !o_.micro_batches.empty()) return;
    int64_t shards = 0;
    take(was->settings, "shards", shards);
    if (can_have_shards(shards)) shards_before_ = shards;
  }
  // The number of shards, which in a pipeline are micro-batches.
  void settle_pipeline() {
    if (given("--shards")) return;  // a pipeline has none
    const bool interleaved = o_.schedule == "interleaved";
    if (!o_.micro_batches.empty() && o_.micro_batches != "auto") {
      char* end = nullptr;
      const int64_t count = std::strtoll(o_.micro_batches.c_str(), &end, 10);
      if (*end) throw BadInput(fmt::format("--micro-batches {}: is no number", o_.micro_batches));
      within("--micro-batches", double(count), 1, 65536);
      o_.shards = count * o_.dp;
    } else if (shards_before_) {
      o_.shards = *shards_before_;
    } else if (o_.pipelined()) {
      // Keeps the pipeline busy for 80 % of the time.
      int64_t count = std::min<int64_t>(4L * o_.widths().ranks(), o_.batch / o_.dp);
      if (interleaved) count = count / o_.pp * o_.pp;
      if (o_.widths().widest() > 1) count = int64_t(std::bit_floor(uint64_t(count)));
      o_.shards = std::max<int64_t>(count, interleaved ? o_.pp : 1) * o_.dp;
    } else {
      o_.shards = o_.accumulate * o_.dp;
    }
  }
  // Whether a step of the run can be divided into as many shards as it was.
  bool can_have_shards(int64_t shards) const {
    if (shards < 1 || shards % o_.dp != 0 || !sync_way(o_).sums_gradients) return false;
    const int64_t each = shards / o_.dp;
    if (o_.level == "canonical" && o_.dp > 1 && !power_of_two(each)) return false;
    if (!o_.pipelined()) return true;
    const int widest = o_.widths().widest();
    return each <= o_.batch / o_.dp && (o_.schedule != "interleaved" || each % o_.pp == 0) &&
           (widest == 1 || (power_of_two(each) && each >= widest));
  }
  void check_rules() const {
    const SyncWay& way = sync_way(o_);
    const Mesh mesh(o_.dp, o_.widths(), o_.tp, o_.grid_order);
    const auto sync = [](bool (*like)(const SyncWay&)) {
      return fmt::format("--sync {}", fmt::join(ways_that(like), ", "));
    };
    const std::string sums = sync([](const SyncWay& w) { return w.sums_gradients; });
    const std::string served = sync([](const SyncWay& w) { return w.server != nullptr; });
    const std::string name = o_.model_name();
    const int widest = o_.widths().widest();
    const int64_t each = o_.shards / o_.dp;  // shards of a worker
    const bool synchronous = way.sums_gradients, whole = o_.topk == 0 && o_.wire == "fp32";
    const bool wide = !o_.stage_widths.empty();
    const bool micro = o_.pipelined() || !o_.micro_batches.empty();
    const Words averages =
        ways_that([](const SyncWay& w) { return w.allreduces && !w.sums_gradients; });
    const std::string stages = "--pp of at least 2", two = "two ranks or more";
    const std::string summed = sums + " and " + two;
    const bool several = mesh.ranks() > 1 || o_.has_servers() || !o_.meet.empty();
    const bool buckets = synchronous && (several || o_.topk > 0);
    one_of(algorithms_of(o_.zero ? "reduce_scatter" : "allreduce"))("--algorithm", o_.algorithm);
    const auto given_needs = [&](const char* option, bool fits, const std::string& what) {
      return needs(given(option), option, fits, what);
    };
    const Rule rules[] = {
        given_needs("--servers", way.server, served),
        given_needs("--overlap", synchronous && several, summed),
        // --topk takes the largest values of each bucket, also of one rank.
        given_needs("--first-bucket", buckets, summed),
        given_needs("--bucket", buckets, summed),
        given_needs("--transport", several, two),
        given_needs("--grid-order", several, two),
        // The grid.
        {mesh.ranks() > 1024,
         fmt::format("--dp {} x --tp {} x --pp {}{} are {} ranks: at most 1024", o_.dp, o_.tp,
                     o_.pp, wide ? " of widths " + o_.stage_widths : "", mesh.ranks())},
        needs(!o_.straggler.empty(), "--straggler",
              o_.dp == mesh.ranks() && o_.dp > 1 && !o_.pipelined(),
              "--dp of 2 or more, without --tp and --pp"),
        {o_.dp != mesh.ranks() && !synchronous,
         fmt::format("--tp {} and --pp {} need {}, not {}", o_.tp, o_.pp, sums, o_.sync)},
        // Samples and shards.
        {given("--batch") && given("--batch-per-rank"),
         "--batch and --batch-per-rank say the same: give one of them"},
        {given("--shards") && given("--accumulate"),
         "--shards and --accumulate say the same: give one of them"},
        {given("--accumulate") && micro,
         "--accumulate and --micro-batches are the same: give one of them"},
        {given("--shards") && micro,
         fmt::format(
             "--shards {}: the shards of a pipeline are the --micro-batches of all --dp copies",
             o_.shards)},
        {o_.batch < o_.dp,
         fmt::format("--batch {} is less than a sample for each of the --dp {} workers", o_.batch,
                     o_.dp)},
        {o_.pipelined() && !synchronous, fmt::format("a pipeline needs {}, not {}", sums, o_.sync)},
        {!synchronous && o_.shards != o_.dp,
         fmt::format("--accumulate, --shards and --micro-batches need {}, not {}", sums, o_.sync)},
        {o_.shards % o_.dp != 0,
         fmt::format("--shards {} cannot be divided among --dp {} workers", o_.shards, o_.dp)},
        {o_.shards > 65536, fmt::format("--shards {}: must be from 1 to 65536", o_.shards)},
        // Stages.
        needs(o_.micro_batches == "auto", "--micro-batches auto", o_.pipelined(), stages),
        needs(o_.chunks > 1, fmt::format("--chunks {}", o_.chunks), o_.schedule == "interleaved",
              fmt::format("--schedule interleaved, not {}", o_.pipelined() ? o_.schedule : "none")),
        needs(wide, "--stage-widths", o_.pp > 1, stages + ": --dp has copies of a model"),
        needs(wide, "--stage-widths", o_.schedule == "gpipe" || o_.schedule == "1f1b",
              "--schedule gpipe or 1f1b, not " + o_.schedule),
        needs(wide, "--stage-widths", o_.micro_batches != "auto",
              "a number of --micro-batches, not auto"),
        needs(wide, "--stage-widths", whole, "whole gradients: neither --wire bf16 nor --topk"),
        {wide && o_.batch / o_.dp < widest,
         fmt::format("--batch {} over --dp {} is less than a sample for each of the {} ranks of a "
                     "stage",
                     o_.batch, o_.dp, widest)},
        {o_.micro_batches == "auto" && o_.resume,
         "--micro-batches auto with --resume: give the number that the run had"},
        {o_.schedule == "interleaved" && each % o_.pp != 0,
         fmt::format("--micro-batches {}: the schedule interleaved needs a multiple of --pp {}",
                     each, o_.pp)},
        {o_.pipelined() && each > o_.batch / o_.dp,
         fmt::format("--batch {} over --dp {} cannot be divided into {} micro-batches", o_.batch,
                     o_.dp, each)},
        {widest > 1 && (!power_of_two(each) || each < widest),
         fmt::format("--micro-batches {}: --stage-widths {} needs {}, {}, {} ...", each,
                     o_.stage_widths, widest, 2 * widest, 4 * widest)},
        given_needs("--stages", o_.pipelined(), stages),
        given_needs("--portals", o_.pipelined(), stages),
        // The optimizer.
        {!(o_.least_rate >= 0 && o_.least_rate <= o_.rate),
         fmt::format("--min-lr {}: must be from 0 to {}", o_.least_rate, o_.rate)},
        needs(o_.decay != "constant", "--decay", o_.steps > o_.warmup,
              fmt::format("more --steps than the {} of --warmup, not {}", o_.warmup, o_.steps)),
        given_needs("--min-lr", o_.decay != "constant", "--decay cosine or linear"),
        given_needs("--momentum", o_.optimizer == "sgd", "--optimizer sgd"),
        given_needs("--weight-decay", o_.optimizer != "sgd", "--optimizer adamw or lamb"),
        // What travels.
        needs(o_.dtype != "float32", "--dtype float64", synchronous && whole,
              sums + " with whole gradients"),
        needs(o_.clip.has_value(), "--clip", synchronous, sums),
        needs(o_.mixed(), "--precision " + o_.precision, o_.dtype == "float32", "--dtype float32"),
        needs(!o_.loss_scale.empty(), "--loss-scale", o_.mixed(), "--precision fp16 or bf16"),
        needs(o_.topk > 0, "--topk", o_.tp == 1,
              "--tp 1: ranks that divide layers would choose differently of what they share"),
        needs(o_.zero, "--zero 1", synchronous, sums),
        needs(o_.topk > 0, "--topk", synchronous && !o_.zero, sums + " without --zero"),
        needs(o_.wire != "fp32", "--wire bf16", synchronous && !o_.zero && o_.topk == 0,
              sums + " without --zero and --topk"),
        needs(o_.level != "fast", "--level canonical", synchronous && whole,
              sums + " with whole fp32 gradients"),
        {o_.canonical() && o_.dp > 1 && !power_of_two(each),
         fmt::format("--level canonical: each worker needs 1, 2, 4, 8 ... of the --shards, not {}",
                     each)},
        needs(
            o_.algorithm != "auto", "--algorithm", several && way.allreduces && o_.topk == 0,
            fmt::format("{} without --topk, or {}, and {}", sums, fmt::join(averages, ", "), two)),
        // Going on without those that die.
        needs(o_.elastic, "--elastic", way.elastic, sync([](const SyncWay& w) {
                                                      return w.elastic;
                                                    }) + ": other ways lose what a rank alone has"),
        needs(o_.elastic, "--elastic", o_.dp == mesh.ranks() && !o_.pipelined(),
              "--tp 1 and --pp 1: nobody else has a rank's part of the layers"),
        needs(o_.elastic, "--elastic", !o_.zero && o_.topk == 0,
              "--zero 0 and no --topk: nobody else has a worker's part of the state"),
        needs(o_.elastic, "--elastic", o_.device == "cpu", "--device cpu"),
        needs(o_.elastic, "--elastic", o_.servers < 2,
              "--servers 1: several may have made different steps"),
        needs(o_.elastic && o_.has_servers(), "--elastic", o_.log.empty(),
              "no --log: it cannot be replayed"),
        needs(o_.elastic && o_.has_servers(), "--elastic", o_.dropout == 0,
              fmt::format("--dropout 0 with --sync {}: it is drawn for each worker", o_.sync)),
        needs(!o_.meet.empty(), "--meet", !o_.has_servers(), sums),
        needs(o_.elastic, "--elastic", o_.straggler.empty(),
              "no --straggler: workers get other numbers"),
        needs(o_.elastic, "--elastic", o_.dp > 1 || !o_.meet.empty(),
              "--dp of 2 or more, or --meet"),
        needs(!o_.meet.empty(), "--meet", o_.elastic, "--elastic"),
        needs(o_.join, "--join", !o_.meet.empty(), "--meet FOLDER"),
        // What is kept and shown.
        needs(!o_.log.empty(), "--log", o_.has_servers(),
              fmt::format("a parameter server ({})", served)),
        needs(!o_.log.empty(), "--log", o_.threads == 1,
              "--threads 1: several may round otherwise in the replay"),
        given_needs("--conv-split", name == "cnn" && o_.tp > 1,
                    "--model cnn and --tp of 2 or more"),
        given_needs("--prompt", o_.generate.has_value(), "--generate"),
        needs(o_.generate.has_value(), "--generate", !o_.init.empty(), "--init FOLDER"),
        given_needs("--checkpoint-every", !o_.checkpoint.empty(), "--checkpoint FOLDER"),
        needs(given("--sample") && o_.sample > 0, "--sample", family_of(name).continues_texts,
              fmt::format("--model {}",
                          fmt::join(model_names([](const Family& f) { return f.continues_texts; }),
                                    " or "))),
        {o_.evaluate_every > 0 && !way.common_steps,
         fmt::format("--evaluate-every with --sync {}: its workers do not make the same steps",
                     o_.sync)},
        needs(o_.resume, "--resume", !o_.checkpoint.empty(), "--checkpoint FOLDER"),
        {o_.resume && !o_.init.empty(), "--init with --resume: a run that goes on has its weights"},
        {o_.resume && !o_.log.empty(),
         "--log with --resume: a log that can be replayed is of a whole run"}};
    for (const Rule& rule : rules)
      if (rule.broken) throw BadInput(rule.says);
    if (o_.canonical()) {
      const Words trees =
          o_.zero ? Words{"auto", "direct"}
                  : Words{"auto",        "butterfly",     "halving-doubling", "two-shot",
                          "round-robin", "master-worker", "all-to-all"};
      const bool asked = o_.level == "canonical";
      one_of(trees)(
          fmt::format("{} with --algorithm", asked ? "--level canonical" : "--stage-widths"),
          o_.algorithm);
    }
    if (o_.stages != "profile" && o_.stages != "even") {
      const size_t parts = o_.stage_layers().size();
      if (parts != size_t(o_.pp) * size_t(o_.chunks))
        throw BadInput(fmt::format("--stages {} lists {} parts, but --pp {} with {} chunk{} has {}",
                                   o_.stages, parts, o_.pp, o_.chunks, o_.chunks > 1 ? "s" : "",
                                   o_.pp * o_.chunks));
    }
    const std::pair<const char*, const std::string&> outputs[] = {{"--json", o_.json},
                                                                  {"--csv", o_.csv},
                                                                  {"--report", o_.report},
                                                                  {"--trace", o_.trace},
                                                                  {"--log", o_.log}};
    for (const auto& [option, path] : outputs)
      for (const auto& [other, same] : outputs)
        if (option != other && !path.empty() && path == same)
          throw BadInput(fmt::format("{} and {} cannot both be {}", option, other, path));
    Straggler::of(o_);
    LossScale::parsed(o_.loss_scale);
    if (way.check) way.check(o_);
  }

  CLI::App app_{"Trains a model on several workers that exchange what they learn through tutti."};
  Options o_;
  std::optional<int64_t> shards_before_;  // of a run that goes on
  std::vector<std::function<void()>> checks_;
};

}  // namespace

std::vector<std::string> with_config(const std::vector<std::string>& arguments) {
  const std::string option = "--config";
  const CommandLine known;
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
        if (!item.parents.empty() || item.name == "config" || !known.has("--" + item.name))
          throw BadInput(fmt::format(
              "{} {}: lines are NAME = VALUE, of options but {}; {:.40} is none", option, path,
              option, printable(item.parents.empty() ? item.name : item.parents[0])));
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
  return CommandLine().parsed(std::move(arguments));
}

}  // namespace tutti::train
