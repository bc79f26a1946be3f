// How a pipeline runs: a picture of it, and the figures that are shown at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "trainer/pipeline/pipeline.h"

namespace tutti::train {

// For times that are whole numbers: f3 the forward of micro-batch 3, b3 its backward, w3 its weight
// gradients, -- the work goes on, .. the stage waits. A letter after the number is the chunk.
std::string drawing_text(const PipelineRun& run, const PipelineShape& shape);

struct PipelineFigures {
  nlohmann::json summary;    // as --json has them
  nlohmann::json last_step;  // for --report: as it was measured, and as it should have been
};

// Collective over the pipeline's ranks; the first one gets the figures.
PipelineFigures figures_of(const Pipeline& pipeline);
// For the screen: a name and a text each.
std::vector<std::pair<std::string, std::string>> lines_of(const PipelineFigures& figures);

}  // namespace tutti::train
