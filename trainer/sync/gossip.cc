// AD-PSGD (Lian et al. 2018): after each gradient a worker averages its parameters with those of
// one partner, picked at random, and waits for no other. Even ranks ask; odd ranks answer, with one
// thread for every rank that may ask. The graph of partners is bipartite, so the wait-for graph has
// no cycle.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "trainer/common/error.h"
#include "trainer/device/vectors.h"
#include "trainer/sync/channels.h"
#include "trainer/sync/list.h"
#include "trainer/sync/shard_pass.h"

namespace tutti::train {
namespace {

constexpr int64_t leaves = -1;

// Both sides compute the same values.
void average(std::span<float> own, std::span<const float> other) {
  for (size_t i = 0; i < own.size(); ++i) own[i] = (own[i] + other[i]) / 2;
}

class Gossip : public Strategy {
 public:
  explicit Gossip(const Worker& worker)
      : Strategy(worker),
        whole_{0, worker.replica.parameters().size()},
        optimizer_(optimizer_settings(worker.options), worker.replica.layout(), {whole_}) {
    channels_ = make_channels(worker.comm, [](int rank) { return rank % 2 == 1; });
    const OnHost<float> here(worker.replica.device(), worker.replica.parameters());
    const auto initial = here.values();
    shared_.assign(initial.begin(), initial.end());
    if (worker.comm.rank() % 2 == 1)
      for (const Channel& channel : channels_)
        threads_.emplace_back([this, &channel] { answer(channel); });
  }
  ~Gossip() override {
    for (const Channel& channel : channels_)
      if (!finished_) channel.comm.abort("the trainer ends");
    for (std::thread& thread : threads_) thread.join();
  }

  StepFigures step(int64_t step) override {
    check();
    {
      const std::lock_guard lock(mutex_);
      take_shared();
    }
    StepFigures figures = own_pass(worker_, step, loss_scale_);
    const OnHost<float> gradients(worker_.replica.device(), worker_.replica.gradients());
    if (threads_.empty()) ask(step, figures);
    const std::lock_guard lock(mutex_);
    own_update(figures, step, optimizer_, shared_, gradients.values(), loss_scale_);
    figures.sent = {std::exchange(sent_, {}), formula(step)};
    return figures;
  }

  bool together() const override { return false; }
  // A rank that asks gets here only after it has been answered.
  void pause(int64_t) override {
    worker_.comm.barrier();
    const std::lock_guard lock(mutex_);  // acquires what the threads have written
  }
  std::vector<StateVector> state() override {
    return state_of(std::span(shared_), optimizer_, StateVector::Placement::local);
  }

  // At the end the parameters of all workers are averaged.
  Traffic finish() override {
    if (threads_.empty())
      for (const Channel& channel : channels_)
        between(channel, [&] { channel.comm.send<int64_t>(std::span(&leaves, 1), 1); });
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    finished_ = true;
    check();
    worker_.comm.allreduce(std::span(shared_), TUTTI_AVG);
    take_shared();
    return {std::exchange(sent_, {}), {}};  // answers after the last step
  }

  std::string about() const override {
    return "parameters are averaged with a random partner's after each gradient";
  }

 private:
  // A worker that asks sends its parameters, and a message before them with the number of the step;
  // one that answers its parameters, as often as the others' random numbers pick it.
  Volume formula(int64_t step) const {
    const int size = worker_.comm.size(), own = worker_.comm.rank();
    const double bytes = 4 * double(whole_.size());
    if (own % 2 == 0) return {bytes + 8, 2};
    double answers = 0;
    for (int rank = 0; rank < size; rank += 2)
      answers += partner_of(rank, step, size_t(size / 2)) == size_t(own / 2) ? 1 : 0;
    return {answers * bytes, answers};
  }
  // Copies shared_ to the model's parameters.
  void take_shared() {
    const OnHost<float> here(worker_.replica.device(), worker_.replica.parameters());
    std::copy(shared_.begin(), shared_.end(), here.values().begin());
    here.store();
  }
  // Which of the `count` ranks that answer the rank asks.
  size_t partner_of(int rank, int64_t step, size_t count) const {
    return size_t(mixed(worker_.options.seed, uint64_t(step), uint64_t(rank)) % count);
  }
  void ask(int64_t step, StepFigures& figures) {
    const double from = now();
    const Channel& partner = channels_[partner_of(worker_.comm.rank(), step, channels_.size())];
    Meter meter(partner.comm);
    other_.resize(shared_.size());
    fault_point("allreduce");
    between(partner, [&] {
      partner.comm.send<int64_t>(std::span(&step, 1), 1);
      partner.comm.send<float>(shared_, 1);
      partner.comm.recv<float>(other_, 1);
    });
    average(shared_, other_);
    figures.exposed = figures.communication = now() - from;
    sent_ = meter.sent();
    worker_.timeline.add("communication", "average with a partner", from, now(), sent_.bytes);
  }

  // Answers until the other worker leaves, however long that computes between two of its questions.
  void answer(const Channel& asking) {
    try {
      between(asking, [&] { answer_all(asking.comm); });
    } catch (const std::exception& failed) {
      {
        const std::lock_guard lock(mutex_);
        if (!failed_) failed_ = std::current_exception();
      }
      for (const Channel& channel : channels_) channel.comm.abort(failed.what());
    }
  }
  void answer_all(const communicator& asking) {
    std::vector<float> theirs(shared_.size()), before(shared_.size());
    Meter meter(asking);
    for (;;) {
      int64_t word = 0;
      asking.recv<int64_t>(std::span(&word, 1), 0);
      if (word == leaves) return;
      asking.recv<float>(theirs, 0);
      {
        const std::lock_guard lock(mutex_);
        before = shared_;
        average(shared_, theirs);
      }
      asking.send<float>(before, 0);
      const std::lock_guard lock(mutex_);
      sent_ += meter.sent();
    }
  }

  void check() {
    const std::lock_guard lock(mutex_);
    if (failed_) std::rethrow_exception(failed_);
  }

  Range whole_;
  Optimizer optimizer_;
  std::mutex mutex_;           // of shared_, sent_ and failed_
  std::vector<float> shared_;  // the parameters that other ranks average with
  std::vector<float> other_;
  Volume sent_;  // since the last step ended
  bool finished_ = false;
  std::exception_ptr failed_;
  std::vector<Channel> channels_;
  std::vector<std::thread> threads_;
};

std::string plan(const PlannedStep& step) {
  return fmt::format(
      "a step     computes a gradient, then each worker of even rank sends its parameters, {}, "
      "to one of odd rank, picked at random, gets that one's, and both go on with the average\n",
      megabytes(double(step.options.element_bytes() * elements_of(step.layout))));
}

}  // namespace

SyncWay ways::gossip() {
  return {
      .name = "gossip",
      .messages = true,
      .own_replicas = true,
      .check =
          [](const Options& o) {
            if (o.dp < 2)
              throw BadInput(fmt::format("--sync gossip needs two workers at least, not {}", o.dp));
          },
      .plan = plan,
      .make = made_strategy<Gossip>};
}

}  // namespace tutti::train
