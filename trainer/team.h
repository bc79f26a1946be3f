// What a rank has from its first step to its last, and what it makes with the workers that there
// are at the time.
#pragma once

#include <memory>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/report/screen.h"
#include "trainer/sync/model_traffic.h"
#include "trainer/sync/strategy.h"
#include "trainer/sync/ways.h"

namespace tutti::train {

// All of it outlives the run.
struct RankParts {
  const Data& data;
  Replica& replica;
  const Group& group;  // that divides its layers
  GroupCalls& made;    // of that group
  Timeline& timeline;
  Screen& screen;
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
        traffic(worker, parts.group, parts.made) {}
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
