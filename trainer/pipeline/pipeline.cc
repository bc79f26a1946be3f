#include "trainer/pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "trainer/common/error.h"
#include "trainer/common/faults.h"
#include "trainer/common/random.h"
#include "trainer/common/timeline.h"
#include "trainer/data/data.h"
#include "trainer/models/shape.h"
#include "trainer/parallel/norms.h"
#include "trainer/pipeline/stage.h"

namespace tutti::train {
namespace {

using Kind = Action::Kind;

// Receives that are posted ahead of their turn, so that senders need not wait for this rank.
constexpr size_t ahead = 2;

// `widths`: ranks of each part.
std::vector<Range> cut_of(const Options& o, const ModelFacts& facts,
                          const std::vector<int>& widths) {
  const size_t parts = widths.size(), layers = facts.layers.size();
  if (o.stages == "even") return cut_layers(std::vector(parts, layers / parts));
  if (o.stages != "profile") return cut_layers(o.stage_layers());
  std::vector<double> seconds;
  for (const ModelFacts::Layer& layer : facts.layers) seconds.push_back(layer.seconds);
  return balanced_cut(seconds, widths);
}

}  // namespace

PipelinePlan plan_pipeline(const Options& o, const ModelFacts& facts) {
  PipelinePlan plan;
  plan.shape = {o.schedule, o.pp, int(o.shards / o.dp), o.chunks, o.widths()};
  for (const ModelFacts::Layer& layer : facts.layers) plan.layers.push_back(layer.name);
  std::vector<int> widths;  // of parts
  widths.reserve(size_t(plan.shape.parts()));
  for (int part = 0; part < plan.shape.parts(); ++part)
    widths.push_back(plan.shape.widths.width(part % o.pp));
  plan.parts = cut_of(o, facts, widths);
  plan.ports = ports_of(facts, plan.parts, widths, o.portals);
  plan.schedule = make_schedule(plan.shape, plan.ports);
  const std::string wrong = check_schedule(plan.schedule, plan.shape, plan.ports);
  if (!wrong.empty()) throw Failure("the schedule is wrong: " + wrong);
  return plan;
}

std::vector<std::string> PipelinePlan::layers_of(int stage) const {
  std::vector<std::string> names;
  for (int c = 0; c < shape.chunks; ++c) {
    const Range& part = parts[size_t(shape.part(stage, c))];
    names.insert(names.end(), layers.begin() + std::ptrdiff_t(part.begin),
                 layers.begin() + std::ptrdiff_t(part.end));
  }
  return names;
}

Pipeline::Pipeline(const Options& options, const Data& data, const Grid& grid, Timeline& timeline,
                   Stage& stage, PipelinePlan plan)
    : options_(options),
      data_(data),
      comm_(grid.pipeline),
      copy_(grid.copy),
      timeline_(timeline),
      stage_(stage),
      plan_(std::move(plan)),
      forward_(make_forward(plan_.shape, plan_.ports)),
      shard_norm_(stage.device(), 1) {
  const StageWidths& widths = plan_.shape.widths;
  const auto own =
      size_t(plan_.shape.micro_batches / widths.width(widths.stage(grid.pipeline.rank())));
  for (int c = 0; c < plan_.shape.chunks; ++c)
    if (options_.dtype == "float64")
      folds_.emplace_back(BasicFold<double>(own, stage.device()));
    else
      folds_.emplace_back(BasicFold<float>(own, stage.device()));
}

// ---------------------------------------------------------------- messages

void Pipeline::post(const std::vector<Action>& list, const std::vector<int64_t>& samples) {
  for (; posted_ < list.size() && receives_.size() < ahead; ++posted_) {
    const Action& a = list[posted_];
    if (a.kind == Kind::receive)
      receives_.push_back(comm_.irecv<int8_t>(
          stage_.incoming(parcel_of(a), samples[size_t(a.micro_batch)]), peer(a)));
  }
}

void Pipeline::send(const Action& a) {
  const auto bytes = stage_.outgoing(parcel_of(a));
  sent_bytes_[{a.port, a.gradient}] += bytes.size();
  sends_.emplace_back(parcel_of(a), comm_.isend<int8_t>(bytes, peer(a)));
  wait_sends(false);
}

// A tensor is kept until its send is complete.
void Pipeline::wait_sends(bool all) {
  while (!sends_.empty()) {
    auto& [key, sending] = sends_.front();
    if (all)
      sending.wait();
    else if (!sending.test())
      return;
    stage_.drop(key);
    sends_.pop_front();
  }
}

void Pipeline::execute(const std::vector<Action>& list, const std::vector<int64_t>& samples,
                       const Work& work) {
  posted_ = 0;
  size_t at = 0;
  try {
    for (; at < list.size(); ++at) {
      const Action& a = list[at];
      post(list, samples);
      if (a.kind == Kind::receive) {
        const double from = now();
        receives_.front().wait();
        receives_.pop_front();
        timeline_.add(
            "communication",
            fmt::format("{} from stage {}", a.gradient ? "gradient" : "activation", a.peer), from,
            now());
        exposed_ += now() - from;
      } else if (a.kind == Kind::send) {
        send(a);
      } else {
        work(a);
      }
    }
    const double from = now();
    wait_sends(true);
    exposed_ += now() - from;
  } catch (const tutti::error&) {
    show_stuck(list, std::min(at, list.size() - 1));
    throw;
  } catch (...) {
    comm_.abort("a stage of the pipeline failed");  // requests in flight need no wait
    throw;
  }
}

// Written in one piece, so that the texts of several ranks do not mix.
void Pipeline::show_stuck(const std::vector<Action>& list, size_t at) const {
  std::string text =
      fmt::format("tutti-train: stage {} of {}, schedule {}, micro-batches 0 to {}, was at\n",
                  plan_.shape.widths.name(comm_.rank()), plan_.shape.stages, plan_.shape.schedule,
                  plan_.shape.micro_batches - 1);
  for (size_t i = at < 2 ? 0 : at - 2; i < std::min(list.size(), at + 3); ++i)
    text += fmt::format("  {} {:>4} of {}  {}\n", i == at ? "->" : "  ", i + 1, list.size(),
                        describe(list[i]));
  std::fputs(text.c_str(), stderr);
}

// ---------------------------------------------------------------- a step

int64_t Pipeline::shard(int micro_batch) const {
  const int m = plan_.shape.micro_batches;
  return int64_t(copy_) * m + plan_.shape.widths.shard(micro_batch, m);
}

int Pipeline::peer(const Action& message) const {
  return plan_.shape.widths.rank(message.peer, message.micro_batch);
}

void Pipeline::add(int chunk, int micro_batch) {
  const double whole = double(options_.batch) / double(shard_samples(options_, shard(micro_batch)));
  const auto add_to = [&]<class Real>(BasicFold<Real>& fold) {
    const std::span<Real> gradient = stage_.gradients<Real>(chunk);
    for_counted(stage_.layout(), stage_.place(chunk), gradient, [&](std::span<Real> own) {
      Vectors<Real>::add_squares(stage_.device(), own, whole, shard_norm_.span());
    });
    fold.add(size_t(shard(micro_batch)) % fold.size(), gradient);
  };
  std::visit(add_to, folds_[size_t(chunk)]);
}

void Pipeline::compute(int64_t step, const Action& a, Result& result) {
  const Options& o = options_;
  const double begin = now();
  const int64_t number = shard(a.micro_batch), samples = shard_samples(o, number);
  const bool split = o.schedule == "zb-h1";
  if (a.kind == Kind::forward) {
    fault_point("forward");
    Batch batch;
    batch.samples = samples;
    if (stage_.first(a.chunk) || stage_.last(a.chunk)) batch = shard_batch(o, data_, step, number);
    result.loss += stage_.forward(a.chunk, a.micro_batch, batch, shard_seed(o, step, number));
    peak_live_ = std::max(peak_live_, ++live_);
  } else if (a.kind == Kind::backward) {
    fault_point("backward");
    stage_.backward(a.chunk, a.micro_batch, 1 / (double(o.batch) * double(data_.terms())));
  } else {
    stage_.weight(a.chunk, a.micro_batch);
  }
  if (a.kind == (split ? Kind::weight : Kind::backward)) {
    add(a.chunk, a.micro_batch);
    --live_;
  }
  if (!o.stage_sleep.empty()) {
    const double twice = a.kind == Kind::backward && !split ? 2 : 1;
    const double load =
        o.stage_load.empty() ? 1 : o.stage_load.at(size_t(plan_.shape.widths.stage(comm_.rank())));
    const double lasts =
        1e-3 * load * twice * (o.stage_sleep[0] + o.stage_sleep[1] * double(samples));
    std::this_thread::sleep_for(std::chrono::duration<double>(begin + lasts - now()));
  }
  slots_.push_back({a, begin, now()});
  timeline_.add("compute", describe(a), begin, now());
}

Pipeline::Result Pipeline::run(int64_t step) {
  Result result;
  Vectors<double>::clear(stage_.device(), shard_norm_.span());
  slots_.clear();
  sent_bytes_.clear();
  exposed_ = 0;
  std::vector<int64_t> samples;
  samples.reserve(size_t(plan_.shape.micro_batches));
  for (int i = 0; i < plan_.shape.micro_batches; ++i)
    samples.push_back(shard_samples(options_, shard(i)));
  execute(plan_.schedule[size_t(comm_.rank())], samples,
          [&](const Action& a) { compute(step, a, result); });
  result.shard_norm = OnHost<double>(stage_.device(), shard_norm_.span()).values()[0];
  step_bytes_ = sent_bytes_;
  begins_.push_back(slots_.front().begin);
  ends_.push_back(slots_.back().end);
  busy_.push_back(busy());
  return result;
}

// ---------------------------------------------------------------- without learning

double Pipeline::loss(const Batch& batch) {
  double sum = 0;
  execute(forward_[size_t(comm_.rank())], {batch.samples},
          [&](const Action& a) { sum += stage_.evaluate(a.chunk, batch); });
  return sum;
}

std::string Pipeline::generate(const std::string& prompt, int64_t bytes, uint64_t seed) {
  if (!family_of(options_.model_name()).continues_texts) return "";
  const int64_t context = data_.terms();
  const int last = plan_.shape.widths.lead(plan_.shape.stages - 1);
  const auto next = [&](const std::vector<int64_t>& recent, uint64_t random) {
    Batch batch;
    batch.samples = 1;
    batch.tokens = recent;
    batch.tokens.resize(size_t(context) + 1);  // those after the context have no influence
    loss(batch);
    int64_t token = 0;
    if (comm_.rank() == last)
      token = stage_.draw(int64_t(recent.size()) - 1, data_.vocabulary().size(), random);
    comm_.broadcast<int64_t>(std::span(&token, 1), last);
    return token;
  };
  return generate_text(data_.vocabulary(), prompt, bytes, context, seed, next);
}

// ---------------------------------------------------------------- what was measured

std::span<const std::byte> Pipeline::parameters(int chunk) { return stage_.parameters(chunk); }
size_t Pipeline::peak_bytes() const { return stage_.peak_bytes(); }

Volume Pipeline::planned() const {
  Volume sum;
  for (const Action& a : plan_.schedule[size_t(comm_.rank())]) {
    if (a.kind != Kind::send) continue;
    const Port& port = plan_.ports[size_t(a.port)];
    double bytes = double(options_.computed_bytes()) * port.elements();
    if (!port.weight()) bytes *= double(shard_samples(options_, shard(a.micro_batch)));
    sum.bytes += bytes;
    ++sum.messages;
  }
  return sum;
}

double Pipeline::busy() const {
  double seconds = 0;
  for (const Slot& slot : slots_) seconds += slot.end - slot.begin;
  return seconds;
}

double Pipeline::utilisation() const {
  std::vector<double> first = begins_, last = ends_, shares = busy_;
  if (shares.empty()) return 0;
  comm_.allreduce<double>(first, TUTTI_MIN);
  comm_.allreduce<double>(last, TUTTI_MAX);
  comm_.allreduce<double>(shares);
  for (size_t i = 0; i < shares.size(); ++i) shares[i] /= (last[i] - first[i]) * comm_.size();
  const auto median = shares.begin() + std::ptrdiff_t(shares.size() / 2);
  std::nth_element(shares.begin(), median, shares.end());
  return *median;
}

}  // namespace tutti::train
