#include "trainer/report/summary.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/common/gather_text.h"
#include "trainer/pipeline/figures.h"

namespace tutti::train {
namespace {

// The figures of one rank, over all its steps.
struct Facts {
  double steps = 0, seconds = 0, exposed = 0, communication = 0;
  double bytes = 0, messages = 0;  // sent
  // To ranks that divide layers, and to stages: counted, by formula; seconds waited.
  Traffic divided, divided_by_formula, staged, staged_by_formula;
  double parameters = 0, counted = 0, state = 0;  // elements that it holds; of the optimizer
};
constexpr size_t facts = sizeof(Facts) / sizeof(double);

void add(Traffic& sum, const Traffic& more) {
  sum.bytes += more.bytes;
  sum.messages += more.messages;
  sum.seconds += more.seconds;
}

Facts facts_of(const Worker& worker, Strategy& strategy, const std::vector<StepRecord>& history) {
  Facts sums;
  for (const StepRecord& r : history) {
    ++sums.steps;
    sums.seconds += r.seconds;
    sums.exposed += r.figures.exposed;
    sums.communication += r.figures.communication;
    sums.bytes += r.figures.volume.bytes;
    sums.messages += r.figures.volume.messages;
    add(sums.divided, r.figures.divided);
    add(sums.divided_by_formula, r.figures.divided_by_formula);
    add(sums.staged, r.figures.staged);
    add(sums.staged_by_formula, r.figures.staged_by_formula);
  }
  for (const Parameter& p : worker.replica.layout()) {
    sums.parameters += double(p.count);
    if (p.counted && worker.comm.rank() == 0) sums.counted += double(p.count);
  }
  for (const StateVector& v : strategy.state())
    if (v.name != "parameters")
      for (const std::span<std::byte> part : v.values) {
        const size_t values = part.size() / worker.replica.width();
        sums.state += double(values);
      }
  return sums;
}

// By rank, on rank 0.
std::vector<Facts> gather_facts(const Worker& worker, Strategy& strategy,
                                const std::vector<StepRecord>& history) {
  const communicator& comm = worker.grid.all;
  const Facts mine = facts_of(worker, strategy, history);
  std::vector<Facts> all(size_t(comm.size()));
  comm.gather<double>(std::span(&mine.steps, facts), std::span(&all[0].steps, facts * all.size()),
                      0);
  return all;
}

std::string words(const Volume& volume) {
  return fmt::format("{:.0f} bytes in {:.4g} messages", volume.bytes, volume.messages);
}

// Of a group within a copy of the model: the line, and the same for the summary's object. A step,
// the most that any rank sends and the longest that one waits.
struct Line {
  std::string text;
  nlohmann::json object;
};
Line line_of(const char* name, const std::vector<Facts>& all, Traffic Facts::*counted,
             Traffic Facts::*formula) {
  Traffic most, planned;
  for (const Facts& f : all) {
    const Traffic &sent = f.*counted, &by_formula = f.*formula;
    if (sent.bytes / f.steps > most.bytes)
      most = {sent.bytes / f.steps, sent.messages / f.steps, most.seconds};
    most.seconds = std::max(most.seconds, sent.seconds / f.steps);
    if (!std::isnan(planned.bytes) && !(by_formula.bytes / f.steps <= planned.bytes))
      planned = {by_formula.bytes / f.steps, by_formula.messages / f.steps, 0};
  }
  return {fmt::format("{:<15} {} a step by the busiest worker, counted; {}; {:.1f} ms exposed",
                      name, words({most.bytes, most.messages}),
                      std::isnan(planned.bytes)
                          ? "there is no formula"
                          : words({planned.bytes, planned.messages}) + " by the formula",
                      1e3 * most.seconds),
          {{"bytes_sent_per_step", most.bytes},
           {"messages_sent_per_step", most.messages},
           {"bytes_by_formula", number(planned.bytes)},
           {"messages_by_formula", number(planned.messages)},
           {"exposed_ms", 1e3 * most.seconds}}};
}

}  // namespace

void show_heading(Screen& screen, const Worker& worker, const Strategy& strategy,
                  const Shape& shape) {
  const Options& o = worker.options;
  screen.line(fmt::format(
      "{} {} of {} parameters, {}, on {}; {}", shape.name, shape.size, worker.replica.size(),
      o.optimizer, worker.data.about(),
      tensor_library() + (o.device == "cpu" ? "" : ", " + worker.replica.device().name())));
  screen.line(fmt::format("{} worker{} over {}, {} samples a step in {} shards; {}",
                          worker.grid.all.size(), worker.grid.all.size() == 1 ? "" : "s",
                          worker.grid.all.transport(), o.batch, o.shards, strategy.about()));
}

void show_summary(Screen& screen, const Worker& worker, const communicator& world,
                  Strategy& strategy, const std::vector<StepRecord>& history) {
  const Options& o = worker.options;
  const std::vector<Facts> all = gather_facts(worker, strategy, history);
  const std::vector<std::string> servers =
      o.has_servers() ? gather_text(world, "") : std::vector<std::string>();
  // One copy of the model generates the text, on all its ranks.
  std::string text;
  if (o.sample > 0 && worker.grid.copy == 0)
    text = worker.pipeline ? worker.pipeline->continued("\n", o.sample, o.seed)
                           : worker.replica.continued("\n", o.sample, o.seed);
  PipelineFigures pipeline;
  if (worker.pipeline) pipeline = figures_of(*worker.pipeline);
  if (worker.grid.all.rank() != 0 || history.empty()) return;
  const Totals t = totals_of(history, double(o.batch), double(o.batch) / double(o.shards));
  const StepRecord& last = history.back();
  const double terms = double(worker.data.terms());
  screen.line("");
  screen.line(fmt::format(
      "throughput      {:.1f} samples/s ({:.0f} ms a step, median){}", t.samples_per_s, t.median_ms,
      terms > 1 ? fmt::format(", {:.0f} bytes of text/s", t.samples_per_s * terms) : ""));
  screen.line(fmt::format("communication   {:.1f} % of the time exposed, {:.0f} % of it hidden",
                          100 * t.exposed, 100 * t.hidden));
  Volume busiest;  // a step
  for (const Facts& f : all)
    if (f.bytes > busiest.bytes * f.steps) busiest = {f.bytes / f.steps, f.messages / f.steps};
  const Volume formula = strategy.formula();
  screen.line(fmt::format(
      "sent            {} a step by the busiest worker, counted; {}", words(busiest),
      std::isnan(formula.bytes) ? "there is no formula" : words(formula) + " by the formula"));
  const Line layers = line_of("within layers", all, &Facts::divided, &Facts::divided_by_formula);
  const Line stages = line_of("between stages", all, &Facts::staged, &Facts::staged_by_formula);
  if (o.tp > 1) screen.line(layers.text);
  if (worker.pipeline) screen.line(stages.text);
  if (t.noise_samples > 0) {
    screen.line(fmt::format(
        "efficiency      {:.0f} % a sample at a batch of {}: the gradient's noise scale is "
        "{:.0f} samples",
        100 * t.efficiency, o.batch, t.noise_samples));
    screen.line(fmt::format("goodput         {:.1f} samples/s, throughput x efficiency",
                            t.samples_per_s * t.efficiency));
  }
  screen.line(fmt::format(
      "validation loss {:.4f}{}", last.validation,
      terms > 1 ? fmt::format(" ({:.2f} bits a byte)", last.validation / std::log(2.0)) : ""));
  for (size_t r = 0; r < all.size(); ++r) {
    const Facts& f = all[r];
    screen.line(
        fmt::format("rank {:<3}        worked {:.1f} s on {:.0f} steps, waited {:.1f} s for "
                    "communication, of which there was {:.1f} s; sent {:.2f} MB in {:.0f} messages",
                    r, f.seconds, f.steps, f.exposed, f.communication, f.bytes / 1e6, f.messages));
  }
  nlohmann::json served = nlohmann::json::array();  // by server
  for (size_t r = all.size(); r < servers.size(); ++r) {
    served.push_back(nlohmann::json::parse(servers[r]));
    screen.line(fmt::format("rank {:<3}        {}", r, served.back()["text"].get<std::string>()));
    served.back().erase("text");
  }
  if (worker.pipeline)
    for (const std::string& line : lines_of(pipeline, worker.pipeline->plan().shape))
      screen.line(line);
  if (!text.empty()) screen.line("what it writes:\n" + printable(text));
  nlohmann::json held = nlohmann::json::array(), worked = held;  // by rank
  double whole = 0;
  for (const Facts& f : all) {
    held.push_back({{"parameters", f.parameters}, {"optimizer_state", f.state}});
    worked.push_back({{"steps", f.steps}, {"seconds", f.seconds}, {"waited", f.exposed}});
    whole += f.counted;
  }
  nlohmann::json summary = {{"summary", true},
                            {"steps", t.steps},
                            {"samples_per_s", t.samples_per_s},
                            {"step_ms", t.median_ms},
                            {"comm_exposed", t.exposed},
                            {"comm_hidden", t.hidden},
                            {"bytes_sent_per_step", busiest.bytes},
                            {"messages_sent_per_step", busiest.messages},
                            {"bytes_by_formula", number(formula.bytes)},
                            {"messages_by_formula", number(formula.messages)},
                            {"efficiency", t.efficiency},
                            {"goodput", t.samples_per_s * t.efficiency},
                            {"noise_samples", t.noise_samples},
                            {"loss", last.figures.loss},
                            {"validation_loss", last.validation},
                            {"parameters", whole},
                            {"held", held},
                            {"worked", worked},
                            {"ranks", all.size()}};
  if (o.has_servers()) summary["servers"] = served;
  if (o.tp > 1) summary["within_layers"] = layers.object;
  if (worker.pipeline) summary["between_stages"] = stages.object;
  if (worker.pipeline) summary["pipeline"] = json_of(pipeline, worker.pipeline->plan().shape);
  if (!text.empty()) summary["text"] = printable(text);
  screen.record(summary);
}

}  // namespace tutti::train
