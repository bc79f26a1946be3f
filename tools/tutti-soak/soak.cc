#include "tools/tutti-soak/soak.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace tutti::soak {
namespace {

using Json = nlohmann::json;

constexpr double most_stretch_s = 15, least_stretch_s = 1;
constexpr double start_s = 0.4;  // time that ranks take to start and to end
constexpr double terminal_pause_s = 0.3, other_pause_s = 15;

volatile sig_atomic_t interrupted = 0;
void interrupt(int) { interrupted = 1; }

double clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Json to_json(const Line& line) {
  const Tally& tally = line.tally;
  return {{"transport", line.configuration.transport},
          {"ranks", line.configuration.ranks},
          {"ranks_as", line.configuration.as_threads() ? "threads" : "processes"},
          {"cores", line.configuration.crowded ? "crowded" : "own"},
          {"stretches", line.stretches},
          {"calls", tally.calls},
          {"bytes", tally.bytes},
          {"refused", tally.refused},
          {"wrong", tally.wrong},
          {"hangs", tally.hangs},
          {"failed", tally.failed},
          {"bad_seeds", line.bad_seeds},
          {"not_here", line.not_here}};
}

Line from_json(const Json& json) {
  Line line;
  line.configuration = {json.at("transport"), json.at("ranks"), json.at("cores") == "crowded"};
  line.tally = {json.at("calls"),   json.at("bytes"), json.at("wrong"),
                json.at("refused"), json.at("hangs"), json.at("failed")};
  line.stretches = json.at("stretches");
  line.bad_seeds = json.at("bad_seeds").get<std::vector<uint64_t>>();
  line.not_here = json.at("not_here");
  return line;
}

// Written as a whole or not at all.
void write_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::ofstream file(fresh);
  file << text << '\n';
  file.close();
  if (!file || std::rename(fresh.c_str(), path.c_str()) != 0)
    throw std::runtime_error("cannot write " + path);
}

}  // namespace

Soak::Soak(const SoakOptions& options) : options_(options) {
  make_lines();
  if (!options_.state.empty()) load();
}

void Soak::make_lines() {
  const auto wanted = [&](const char* cores) {
    return std::find(options_.cores.begin(), options_.cores.end(), cores) != options_.cores.end();
  };
  for (const int ranks : options_.ranks) {
    for (const std::string& transport : options_.transports) {
      if (wanted("own") && ranks <= usable_core_count())
        lines_.push_back({{transport, ranks, false}, {}, 0, {}, false});
      if (wanted("crowded")) lines_.push_back({{transport, ranks, true}, {}, 0, {}, false});
    }
  }
  if (lines_.empty())
    throw std::runtime_error(
        fmt::format("no configuration: this machine has {} cores, so that more ranks are crowded",
                    usable_core_count()));
}

// ---------------------------------------------------------------- state

void Soak::load() {
  std::ifstream file(options_.state);
  if (!file) return;
  const Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) throw std::runtime_error(options_.state + " is not a state file");
  std::vector<Line> lines;
  for (const Json& one : json.at("configurations")) lines.push_back(from_json(one));
  const bool same =
      json.at("seed") == options_.seed &&
      std::equal(lines.begin(), lines.end(), lines_.begin(), lines_.end(),
                 [](const Line& a, const Line& b) { return a.configuration == b.configuration; });
  if (!same)
    throw std::runtime_error(options_.state +
                             " is of a run with another seed or other configurations");
  lines_ = lines;
  seconds_ = json.at("seconds");
}

std::string Soak::as_json() const {
  Json json{{"seed", options_.seed}, {"seconds", seconds_}, {"configurations", Json::array()}};
  for (const Line& line : lines_) json["configurations"].push_back(to_json(line));
  return json.dump(1);
}

void Soak::save() const {
  if (!options_.state.empty()) write_file(options_.state, as_json());
}

// ---------------------------------------------------------------- run

// The whole time is cut into at least one stretch of each configuration.
double Soak::stretch_seconds() const {
  if (options_.stretch_s > 0) return options_.stretch_s;
  if (options_.steps > 0) return 0;
  if (options_.seconds == 0) return most_stretch_s;
  return std::clamp(options_.seconds / double(lines_.size()) - start_s, least_stretch_s,
                    most_stretch_s);
}

bool Soak::done(const Line& line) const {
  if (line.not_here) return true;
  if (options_.rounds > 0 && line.stretches >= options_.rounds) return true;
  const uint64_t share = (options_.calls + lines_.size() - 1) / lines_.size();
  return options_.calls > 0 && line.tally.calls >= share;
}

// The unfinished configuration with the fewest stretches; null: none.
Line* Soak::next() {
  if (interrupted || (options_.seconds > 0 && seconds_ >= options_.seconds)) return nullptr;
  Line* least = nullptr;
  for (Line& line : lines_)
    if (!done(line) && (!least || line.stretches < least->stretches)) least = &line;
  return least;
}

void Soak::run_line(Line* line) {
  StretchPlan plan{line->configuration, seed_of(*line),    options_.from_step,
                   options_.steps,      stretch_seconds(), options_.timeout_s};
  stretch_began_s_ = clock_s();
  const StretchEnd end =
      run_stretch(plan, [&](const Tally& now) { return show_progress(*line, now); });
  seconds_ += clock_s() - stretch_began_s_;
  // A stretch that was interrupted without a finding is repeated: a signal to all processes also
  // ends the ranks' launcher.
  if (interrupted && end.tally.wrong + end.tally.hangs == 0) return;
  if (!end.tally.good()) line->bad_seeds.push_back(plan.seed);
  line->not_here = end.not_here;
  line->tally += end.tally;
  ++line->stretches;
  save();
}

int Soak::run() {
  struct sigaction action {};
  action.sa_handler = interrupt;
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
  while (Line* line = next()) run_line(line);
  if (isatty(STDERR_FILENO)) std::fputs("\r\033[K", stderr);
  print_table();
  if (!options_.json.empty()) write_file(options_.json, as_json());
  if (interrupted) return 130;
  return total().good() && total().calls > 0 ? 0 : 1;
}

Tally Soak::total() const {
  Tally sum;
  for (const Line& line : lines_) sum += line.tally;
  return sum;
}

// ---------------------------------------------------------------- screen

bool Soak::show_progress(const Line& line, const Tally& now) {
  const double at_s = clock_s();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (at_s - shown_at_s_ >= (terminal ? terminal_pause_s : other_pause_s)) {
    shown_at_s_ = at_s;
    Tally sum = total();
    sum += now;
    const double stretch_s = at_s - stretch_began_s_;
    const std::string text = fmt::format(
        "{:.0f} s: {} calls, {} wrong, {} hangs; {}, seed {}: {:.0f} calls/s", seconds_ + stretch_s,
        sum.calls, sum.wrong, sum.hangs, line.configuration.name(), seed_of(line),
        double(now.calls) / std::max(stretch_s, 0.001));
    std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", text.c_str());
    std::fflush(stderr);
  }
  return !interrupted;
}

void Soak::print_table() const {
  fmt::print("{:<9} {:>5} {:<9} {:<7} {:>11} {:>10} {:>8} {:>7} {:>5} {:>5} {:>6}\n", "transport",
             "ranks", "as", "cores", "seeds", "calls", "GB", "refused", "wrong", "hangs", "failed");
  const auto row = [](const std::string& transport, const std::string& ranks, const char* as,
                      const char* cores, const std::string& seeds, const Tally& tally) {
    fmt::print("{:<9} {:>5} {:<9} {:<7} {:>11} {:>10} {:>8.2f} {:>7} {:>5} {:>5} {:>6}\n",
               transport, ranks, as, cores, seeds, tally.calls, double(tally.bytes) / 1e9,
               tally.refused, tally.wrong, tally.hangs, tally.failed);
  };
  for (const Line& line : lines_) {
    const Configuration& one = line.configuration;
    const std::string seeds = line.not_here ? "not here"
                              : line.stretches == 0
                                  ? "none"
                                  : fmt::format("{}-{}", options_.seed, seed_of(line) - 1);
    row(one.transport, fmt::to_string(one.ranks), one.as_threads() ? "threads" : "processes",
        one.crowded ? "crowded" : "own", seeds, line.tally);
  }
  row("all", "", "", "", "", total());
  for (const Line& line : lines_)
    if (!line.bad_seeds.empty())
      fmt::print("{}: see seeds {}\n", line.configuration.name(), fmt::join(line.bad_seeds, ", "));
}

}  // namespace tutti::soak
