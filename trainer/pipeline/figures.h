// How a pipeline ran: the figures that are shown at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "trainer/pipeline/pipeline.h"

namespace tutti::train {

struct PipelineFigures {
  nlohmann::json summary;                             // as --json has them
  std::vector<std::vector<Slot>> measured, expected;  // of the last step
};

// Collective over the pipeline's ranks; the first one gets the figures.
PipelineFigures figures_of(const Pipeline& pipeline);
// For the screen: a name and a text each.
std::vector<std::pair<std::string, std::string>> lines_of(const PipelineFigures& figures);
// A section of the report.
std::string html_of(const PipelineFigures& figures, const PipelineShape& shape);

}  // namespace tutti::train
