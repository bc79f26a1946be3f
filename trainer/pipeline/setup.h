// Makes a rank's pipeline: measures the layers and decides where to cut and into how many
// micro-batches.
#pragma once

#include <memory>
#include <string>

#include "trainer/pipeline/pipeline.h"

namespace tutti::train {

struct RankPipeline {
  std::unique_ptr<Stage> stage;
  std::unique_ptr<Pipeline> pipeline;
  std::string decisions;  // one line; empty where there were none to make
};

// Collective over the grid; where times are measured, its rank 0 decides. The replica keeps this
// rank's layers only. With --micro-batches auto `options` gets the number of shards.
RankPipeline make_pipeline(Options& options, const Data& data, const Grid& grid, Replica& replica,
                           Timeline& timeline);

}  // namespace tutti::train
