// What ranks that share a copy of the model send each other in a step, counted and by formula.
#pragma once

#include "trainer/pipeline/pipeline.h"
#include "trainer/sync/strategy.h"
#include "trainer/sync/wire.h"

namespace tutti::train {

class ModelTraffic {
 public:
  // `made`: the calls of the group since begin().
  ModelTraffic(const Worker& worker, const Group& group, GroupCalls& made)
      : worker_(worker),
        group_(group),
        made_(made),
        divided_(worker.grid.tensor),
        staged_(worker.grid.pipeline) {}
  // What came before, a validation for one, is not the step's.
  void begin() {
    divided_.sent();
    staged_.sent();
    made_ = {};
  }
  void end(StepFigures& figures) {
    figures.divided = {divided_.sent(), {}, made_.seconds};
    for (const GroupCall& call : made_.calls)
      figures.divided.formula += formula_of(call, group_.sums, worker_.grid.tensor);
    // The norms of divided layers.
    if (worker_.options.optimizer == "lamb")
      figures.divided.formula +=
          formula_of({GroupCall::Kind::allreduce, 2 * worker_.replica.layout().size(),
                      TUTTI_BINNED_FLOAT64, TUTTI_SUM},
                     TUTTI_CALL_CONFIG_INIT, worker_.grid.tensor);
    figures.exposed += made_.seconds;
    figures.communication += made_.seconds;
    if (const Pipeline* pipeline = worker_.pipeline)
      figures.staged = {staged_.sent(), pipeline->planned(), pipeline->exposed()};
  }

 private:
  const Worker& worker_;
  const Group& group_;
  GroupCalls& made_;
  Meter divided_, staged_;
};

}  // namespace tutti::train
