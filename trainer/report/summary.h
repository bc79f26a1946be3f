// The first and the last output of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/pipeline/figures.h"
#include "trainer/report/history.h"
#include "trainer/report/screen.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

void show_heading(Screen& screen, const Worker& worker, const Strategy& strategy,
                  const Shape& shape);

// What is shown of a whole run; on rank 0 alone.
struct Summary {
  std::vector<std::pair<std::string, std::string>> lines;  // a name and a text each
  PipelineFigures pipeline;                                // where there is one
};
// Collective; rank 0 shows it. `world`: the workers, then the servers.
Summary show_summary(Screen& screen, const Worker& worker, const communicator& world,
                     Strategy& strategy, const std::vector<StepRecord>& history);

}  // namespace tutti::train
