// Pictures of a pipeline's run, ideal or measured: one lane for each rank, one box for each forward
// or backward of a micro-batch.
#pragma once

#include <string>
#include <vector>

#include "trainer/pipeline/schedule.h"

namespace tutti::train {

// For times that are whole numbers: f3 the forward of micro-batch 3, b3 its backward, w3 its weight
// gradients, -- the box goes on, .. the stage waits. A letter after the number is the chunk.
std::string drawing_text(const PipelineRun& run, const PipelineShape& shape);

// Boxes with the classes forward, backward and weight, which drawing_style() colours.
std::string drawing_svg(const std::vector<std::vector<Slot>>& slots, const PipelineShape& shape);
std::string drawing_style();

}  // namespace tutti::train
