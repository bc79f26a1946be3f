// Local SGD (Stich 2019): workers train independently for some steps, then their parameters are
// averaged. Each keeps its own optimizer state.
#include <fmt/format.h>

#include "trainer/common/error.h"
#include "trainer/sync/list.h"
#include "trainer/sync/shard_pass.h"
#include "trainer/sync/wire.h"

namespace tutti::train {
namespace {

constexpr const char* local_steps = "--local-steps";
int64_t steps_of(const Options& o) { return o.of_way<int64_t>(local_steps); }

class LocalSgd : public Strategy {
 public:
  explicit LocalSgd(const Worker& worker)
      : Strategy(worker),
        whole_{0, worker.replica.parameters().size()},
        optimizer_(optimizer_settings(worker.options), worker.replica.layout(), {whole_},
                   worker.replica.device()),
        averages_(worker.comm.dup()),
        meter_(averages_) {}

  StepFigures step(int64_t step) override {
    StepFigures figures = own_pass(worker_, step, loss_scale_);
    own_update(figures, step, optimizer_, worker_.replica.parameters(), worker_.replica.gradients(),
               loss_scale_);
    averaged_ = (step + 1) % steps_of(worker_.options) == 0;
    if (averaged_) average(figures);
    return figures;
  }
  bool together() const override { return averaged_; }
  Traffic finish() override {
    StepFigures last;
    if (!averaged_) average(last);
    return last.sent;
  }
  std::vector<StateVector> state() override {
    return state_of(worker_.replica.parameters(), optimizer_, StateVector::Placement::local);
  }

  std::string about() const override {
    return fmt::format("an average of the parameters every {} steps", steps_of(worker_.options));
  }

 private:
  void average(StepFigures& figures) {
    const double from = now();
    const tutti_call_config config = call_config(worker_.options);
    fault_point("allreduce");
    worker_.replica.device().wait();
    averages_.allreduce(worker_.replica.parameters(), TUTTI_AVG, &config);
    figures.exposed = figures.communication = now() - from;
    figures.sent = {meter_.sent(),
                    formula_of(worker_.options, averages_, whole_.size(), TUTTI_FLOAT32)};
    worker_.timeline.add("communication", "average", from, now(), 4 * double(whole_.size()));
  }

  Range whole_;
  Optimizer optimizer_;
  communicator averages_;  // of the workers, for the averages only
  Meter meter_;
  bool averaged_ = false;  // in the last step
};

std::string plan(const PlannedStep& step) {
  const Options& o = step.options;
  const auto bytes = double(o.element_bytes() * elements_of(step.layout));
  return fmt::format(
      "a step     computes a gradient and updates the worker's own parameters; every {} steps "
      "they are averaged: {} from each worker (as ring)\n",
      steps_of(o), megabytes(allreduce_volume("ring", o.dp, bytes).bytes));
}

}  // namespace

SyncWay ways::local_sgd() {
  return {.name = "local-sgd",
          .options = {{local_steps, "of local-sgd: steps between two averages", int64_t{8}}},
          .allreduces = true,
          .own_replicas = true,
          .check = [](const Options& o) { within(local_steps, double(steps_of(o)), 1, 1e9); },
          .plan = plan,
          .make = made_strategy<LocalSgd>};
}

}  // namespace tutti::train
