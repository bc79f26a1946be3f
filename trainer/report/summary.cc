#include "trainer/report/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "trainer/common/gather_text.h"
#include "trainer/sync/ways.h"

namespace tutti::train {
namespace {

using nlohmann::json;

// The figures of one rank: sums over steps, and what it holds.
struct Facts {
  double steps = 0, seconds = 0, exposed = 0, communication = 0, shard_norm = 0, step_norm = 0;
  Traffic sent, divided, staged;
  double parameters = 0, counted = 0, state = 0;  // elements that it holds; of the optimizer
};
constexpr size_t facts = sizeof(Facts) / sizeof(double);

Facts sums_of(std::span<const StepRecord> steps) {
  Facts sums;
  for (const StepRecord& r : steps) {
    ++sums.steps;
    sums.seconds += r.seconds;
    sums.exposed += r.figures.exposed;
    sums.communication += r.figures.communication;
    sums.shard_norm += r.figures.shard_norm;
    sums.step_norm += r.figures.step_norm;
    sums.sent += r.figures.sent;
    sums.divided += r.figures.divided;
    sums.staged += r.figures.staged;
  }
  return sums;
}

struct Totals {
  double median_ms = 0;      // of a step, the first two left out
  double samples_per_s = 0;  // batch / median
  double exposed = 0;        // fraction of the steps' time
  double hidden = 0;         // fraction of the communication
  double noise_samples = 0;  // gradient noise scale; 0: not known
  double efficiency = 0;     // statistical: progress of a sample, 1 at a batch of one shard
};

// `batch` and `shard`: samples of a step and of a shard.
Totals totals_of(const std::vector<StepRecord>& steps, double batch, double shard) {
  const auto measured = std::span(steps).subspan(steps.size() > 10 ? 2 : 0);
  const Facts sums = sums_of(measured);
  std::vector<double> times;
  for (const StepRecord& r : measured) times.push_back(r.seconds);
  const auto median = times.begin() + std::ptrdiff_t(times.size() / 2);
  std::nth_element(times.begin(), median, times.end());
  Totals t;
  t.median_ms = 1e3 * *median;
  t.samples_per_s = batch / *median;
  t.exposed = sums.seconds > 0 ? sums.exposed / sums.seconds : 0;
  t.hidden = sums.communication > sums.exposed ? 1 - sums.exposed / sums.communication : 0;
  // McCandlish et al. 2018: both squared lengths are |G|^2 + noise / batch, for two batches.
  if (batch > shard && sums.shard_norm > 0) {
    const double signal =
        (batch * sums.step_norm - shard * sums.shard_norm) / (batch - shard) / sums.steps;
    const double noise = (sums.shard_norm - sums.step_norm) / (1 / shard - 1 / batch) / sums.steps;
    if (signal > 0 && noise > 0) {
      t.noise_samples = noise / signal;
      t.efficiency = (t.noise_samples + shard) / (t.noise_samples + batch);
    }
  }
  return t;
}

// By rank, on rank 0.
std::vector<Facts> gather_facts(const Worker& worker, Strategy& strategy,
                                const std::vector<StepRecord>& history) {
  const communicator& comm = worker.grid.all;
  Facts mine = sums_of(history);
  for (const Parameter& p : worker.replica.layout()) {
    mine.parameters += double(p.count);
    if (p.counted && worker.comm.rank() == 0) mine.counted += double(p.count);
  }
  for (const StateVector& v : strategy.state())
    if (v.name != "parameters")
      for (const std::span<std::byte> part : v.values)
        mine.state += double(part.size()) / double(worker.replica.width());
  std::vector<Facts> all(size_t(comm.size()));
  comm.gather<double>(std::span(&mine.steps, facts), std::span(&all[0].steps, facts * all.size()),
                      0);
  return all;
}

std::string words(const Volume& volume) {
  return fmt::format(
      "{:.0f} bytes{}", volume.bytes,
      std::isnan(volume.messages) ? "" : fmt::format(" in {:.4g} messages", volume.messages));
}

// `most`: whether the formula is that of an upper bound.
std::string beside_formula(const Traffic& sent, bool most = false) {
  return fmt::format(
      "{} a step by the busiest worker, counted; {}", words(sent.counted),
      std::isnan(sent.formula.bytes)
          ? "no formula: the library takes ways that send different amounts"
          : (most ? "at most about " : "") + words(sent.formula) + " by the formula");
}

// Of a step: what the rank that sends most does, and the longest that one waits.
Traffic busiest_of(const std::vector<Facts>& all, Traffic Facts::*traffic) {
  Traffic most;
  double seconds = 0;
  for (const Facts& f : all) {
    const auto& [counted, formula, waited] = f.*traffic;
    seconds = std::max(seconds, waited / f.steps);
    if (&f == all.data() || counted.bytes / f.steps > most.counted.bytes)
      most = {{counted.bytes / f.steps, counted.messages / f.steps},
              {formula.bytes / f.steps, formula.messages / f.steps}};
  }
  most.seconds = seconds;
  return most;
}

json json_of(const Traffic& sent) {
  return {{"bytes_sent_per_step", sent.counted.bytes},
          {"messages_sent_per_step", sent.counted.messages},
          {"bytes_by_formula", sent.formula.bytes},
          {"messages_by_formula", sent.formula.messages}};
}

}  // namespace

std::string sentence_of(const Change& change) {
  const std::vector<int>& who = change.lost.empty() ? change.came : change.lost;
  const std::string ranks =
      fmt::format("rank{} {}", who.size() == 1 ? "" : "s", fmt::join(who, ", "));
  const std::string on =
      fmt::format("{} worker{} go{} on after {:.2f} s", change.workers,
                  change.workers == 1 ? "" : "s", change.workers == 1 ? "es" : "", change.seconds);
  if (change.lost.empty()) return fmt::format("{} came after step {}: {}", ranks, change.step, on);
  return fmt::format("{} {} lost in step {}: {}", ranks, who.size() == 1 ? "was" : "were",
                     change.step + 1, on);
}

json object_of(const Change& change) {
  json object = {{"after_step", change.step},
                 {"workers", change.workers},
                 {"pause_ms", 1e3 * change.seconds},
                 {"clock_s", change.end}};
  if (!change.lost.empty()) object["lost"] = change.lost;
  if (!change.came.empty()) object["came"] = change.came;
  return object;
}

void show_heading(Screen& screen, const Worker& worker, const Strategy& strategy,
                  const Shape& shape) {
  const Options& o = worker.options;
  screen.line(fmt::format(
      "{} {} of {} parameters, {}{}, on {}; {}", shape.name, shape.size, worker.replica.size(),
      o.optimizer, o.mixed() ? " in " + o.precision : "", worker.data.about(),
      tensor_library() + (o.device == "cpu" ? "" : ", " + worker.replica.device().name())));
  screen.line(fmt::format("{} worker{} over {}, {} samples a step in {} shards; {}",
                          worker.grid.all.size(), worker.grid.all.size() == 1 ? "" : "s",
                          worker.grid.all.transport(), o.batch, o.shards, strategy.about()));
}

Summary show_summary(Screen& screen, const Worker& worker, const communicator& world,
                     Strategy& strategy, const std::vector<StepRecord>& history,
                     const std::vector<Change>& changes) {
  const Options& o = worker.options;
  Summary shown;
  const std::vector<Facts> all = gather_facts(worker, strategy, history);
  const std::vector<std::string> servers =
      o.has_servers() ? gather_text(world, "") : std::vector<std::string>();
  // One copy of the model generates the text, on all its ranks.
  std::string text;
  if (o.sample > 0 && worker.grid.copy == 0)
    text = worker.pipeline
               ? worker.pipeline->generate("\n", o.sample, o.seed)
               : worker.replica.generate(worker.data.vocabulary(), "\n", o.sample, o.seed);
  if (worker.pipeline) shown.pipeline = figures_of(*worker.pipeline);
  if (worker.grid.all.rank() != 0 || history.empty()) return shown;
  const Totals t = totals_of(history, double(o.batch), double(o.batch) / double(o.shards));
  const StepRecord& last = history.back();
  const double terms = double(worker.data.terms());
  json summary = {{"summary", true},
                  {"steps", history.size()},
                  {"samples_per_s", t.samples_per_s},
                  {"step_ms", t.median_ms},
                  {"comm_exposed", t.exposed},
                  {"comm_hidden", t.hidden},
                  {"efficiency", t.efficiency},
                  {"goodput", t.samples_per_s * t.efficiency},
                  {"noise_samples", t.noise_samples},
                  {"loss", last.figures.loss},
                  {"validation_loss", last.validation},
                  {"ranks", all.size()}};
  const auto line = [&](const std::string& name, const std::string& value) {
    shown.lines.emplace_back(name, value);
  };
  line("throughput",
       fmt::format("{:.1f} samples/s ({:.0f} ms a step, median){}", t.samples_per_s, t.median_ms,
                   terms > 1 ? fmt::format(", {:.0f} bytes of text/s",
                                           t.samples_per_s * terms * worker.data.bytes_a_term())
                             : ""));
  line("communication", fmt::format("{:.1f} % of the time exposed, {:.0f} % of it hidden",
                                    100 * t.exposed, 100 * t.hidden));
  const Traffic busiest = busiest_of(all, &Facts::sent);
  line("sent", beside_formula(busiest, o.topk > 0));
  summary.update(json_of(busiest));
  const auto within_copy = [&](const char* name, const char* key, Traffic Facts::*traffic) {
    const Traffic most = busiest_of(all, traffic);
    line(name, fmt::format("{}; {:.1f} ms exposed", beside_formula(most), 1e3 * most.seconds));
    summary[key] = json_of(most);
    summary[key]["exposed_ms"] = 1e3 * most.seconds;
  };
  if (o.tp > 1) within_copy("within layers", "within_layers", &Facts::divided);
  if (worker.pipeline) within_copy("between stages", "between_stages", &Facts::staged);
  if (t.noise_samples > 0) {
    line("efficiency", fmt::format("{:.0f} % a sample at a batch of {}: the gradient's noise scale "
                                   "is {:.0f} samples",
                                   100 * t.efficiency, o.batch, t.noise_samples));
    line("goodput",
         fmt::format("{:.1f} samples/s, throughput x efficiency", t.samples_per_s * t.efficiency));
  }
  if (const LossScale* scale = strategy.loss_scale()) {
    line("loss scale",
         fmt::format("{} in the end; {} of the run's steps overflowed and were left out{}",
                     scale->scale, scale->skipped, sync_way(o).equal_steps ? "" : ", on rank 0"));
    summary["skipped_steps"] = scale->skipped;
  }
  for (const Change& change : changes) {
    line(change.lost.empty() ? "came" : "lost", sentence_of(change));
    summary["changes"].push_back(object_of(change));
  }
  line("validation loss", fmt::format("{:.4f}{}", last.validation,
                                      terms > 1 ? fmt::format(" ({:.2f} bits a byte)",
                                                              last.validation / std::log(2.0) /
                                                                  worker.data.bytes_a_term())
                                                : ""));
  double whole = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    const Facts& f = all[r];
    line(fmt::format("rank {}", r),
         fmt::format("worked {:.1f} s on {:.0f} steps, waited {:.1f} s for communication, of which "
                     "there was {:.1f} s; sent {:.2f} MB in {:.0f} messages",
                     f.seconds, f.steps, f.exposed, f.communication, f.sent.counted.bytes / 1e6,
                     f.sent.counted.messages));
    summary["held"].push_back({{"parameters", f.parameters}, {"optimizer_state", f.state}});
    summary["worked"].push_back(
        {{"steps", f.steps}, {"seconds", f.seconds}, {"waited", f.exposed}});
    whole += f.counted;
  }
  summary["parameters"] = whole;
  for (size_t r = all.size(); r < servers.size(); ++r) {
    json server = json::parse(servers[r]);
    line(fmt::format("rank {}", r), server["text"].get<std::string>());
    server.erase("text");
    summary["servers"].push_back(server);
  }
  if (worker.pipeline) {
    for (const auto& [name, of_stage] : lines_of(shown.pipeline)) line(name, of_stage);
    summary["pipeline"] = shown.pipeline.summary;
  }
  screen.line("");
  for (const auto& [name, value] : shown.lines) screen.line(fmt::format("{:<15} {}", name, value));
  if (!text.empty()) {
    screen.line("what it writes:\n" + printable(text));
    summary["text"] = printable(text);
  }
  screen.summary(summary);
  return shown;
}

}  // namespace tutti::train
