// How a pipeline ran: the figures that are shown at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/pipeline/pipeline.h"

namespace tutti::train {

struct PipelineFigures {
  double utilisation = 0;  // measured: the median over the steps
  double ideal = 0;        // by the schedule, if all ranks had equal work
  double possible = 0;     // by the schedule, with the measured times of the stages
  struct Rank {
    std::vector<std::string> layers;
    int peak_live = 0;  // micro-batches
    uint64_t activation_bytes = 0;
    uint64_t bytes_sent = 0, bytes_received = 0;  // to and from other stages, so far
  };
  std::vector<Rank> ranks;  // of the stages
  struct Sent {
    int from = 0, to = 0;  // parts
    std::string name;
    uint64_t forward = 0, back = 0;  // bytes of the last step
  };
  std::vector<Sent> ports;
  std::vector<std::vector<Slot>> measured, expected;  // of the last step
};

// Collective over the pipeline's ranks; all of them get the figures.
PipelineFigures figures_of(const Pipeline& pipeline);
nlohmann::json json_of(const PipelineFigures& figures, const PipelineShape& shape);
// Some lines for the screen.
std::vector<std::string> lines_of(const PipelineFigures& figures, const PipelineShape& shape);
// A section of the report.
std::string html_of(const PipelineFigures& figures, const PipelineShape& shape);

}  // namespace tutti::train
