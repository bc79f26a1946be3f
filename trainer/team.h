// What a rank has from its first step to its last, and what it makes with the workers that there
// are at the time.
#pragma once

#include <memory>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/sync/strategy.h"
#include "trainer/sync/ways.h"
#include "trainer/sync/wire.h"

namespace tutti::train {

// What ranks that share a copy of the model send each other in a step, counted and by formula.
class ModelTraffic {
 public:
  ModelTraffic(const Worker& worker, const Group& group)
      : worker_(worker),
        group_(group),
        divided_(worker.grid.tensor),
        staged_(worker.grid.pipeline) {}
  // What came before, a validation for one, is not the step's.
  void begin() {
    divided_.sent();
    staged_.sent();
    *group_.made = {};
  }
  void end(StepFigures& figures) {
    const GroupCalls& made = *group_.made;
    figures.divided = {divided_.sent(), {}, made.seconds};
    for (const GroupCall& call : made.calls)
      figures.divided.formula += formula_of(call, group_.sums, worker_.grid.tensor);
    // The norms of divided layers.
    if (worker_.options.optimizer == "lamb")
      figures.divided.formula +=
          formula_of({GroupCall::Kind::allreduce, 2 * worker_.replica.layout().size(),
                      TUTTI_BINNED_FLOAT64, TUTTI_SUM},
                     TUTTI_CALL_CONFIG_INIT, worker_.grid.tensor);
    figures.exposed += made.seconds;
    figures.communication += made.seconds;
    if (const Pipeline* pipeline = worker_.pipeline)
      figures.staged = {staged_.sent(), pipeline->planned(), pipeline->exposed()};
  }

 private:
  const Worker& worker_;
  const Group& group_;
  Meter divided_, staged_;
};

// All of it outlives the run.
struct RankParts {
  const Data& data;
  Replica& replica;
  const Group& group;  // that divides its layers; it counts its calls
  Timeline& timeline;
  Pipeline* pipeline = nullptr;
};

struct Team {
  // Collective over the workers, and the servers where there are some. `with`: what --dp is now.
  // `all`: the workers, then the servers.
  Team(const RankParts& parts, const Options& with, const communicator& all,
       std::unique_ptr<Grid> workers)
      : options(with),
        world(all),
        grid(std::move(workers)),
        worker{options,    parts.data,     parts.replica, *grid,
               grid->data, parts.timeline, parts.pipeline},
        strategy(sync_way(options).make(worker, world)),
        keepers{options,
                parts.data,
                parts.replica.layout(),
                options.has_servers() ? world : grid->all,
                alike().rank(),
                alike().size(),
                identity_of(options),
                settings_of(options)},
        traffic(worker, parts.group) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // The ranks with the same part of the model. Where there are servers they hold the state.
  const communicator& alike() const { return options.has_servers() ? world : grid->data; }

  Options options;
  const communicator& world;
  std::unique_ptr<Grid> grid;
  Worker worker;
  std::unique_ptr<Strategy> strategy;
  CheckpointGroup keepers;  // the ranks that make a checkpoint
  ModelTraffic traffic;
};

}  // namespace tutti::train
