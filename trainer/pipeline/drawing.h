// Pictures of work over time: one lane for each rank, one box for each piece of work. Of a
// pipeline's run, ideal or measured, a box is a forward or backward of a micro-batch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/pipeline/schedule.h"

namespace tutti::train {

// For times that are whole numbers: f3 the forward of micro-batch 3, b3 its backward, w3 its weight
// gradients, -- the box goes on, .. the stage waits. A letter after the number is the chunk.
std::string drawing_text(const PipelineRun& run, const PipelineShape& shape);

// Boxes with the classes forward, backward and weight.
std::string drawing_svg(const std::vector<std::vector<Slot>>& slots, const PipelineShape& shape);

struct Lane {
  struct Box {
    double begin = 0, end = 0;
    std::string style;  // its classes
    std::string label;  // written into it where there is room
    std::string title;
  };
  std::string name;
  std::vector<Box> boxes;
};
// The first begin and the last end.
std::pair<double, double> extent_of(const std::vector<Lane>& lanes);
std::string lanes_svg(const std::vector<Lane>& lanes);

// As HTML's text.
std::string escaped(const std::string& text);

}  // namespace tutti::train
