// The first and the last output of a run.
#pragma once

#include <vector>

#include "trainer/report/history.h"
#include "trainer/report/screen.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

void show_heading(Screen& screen, const Worker& worker, const Strategy& strategy,
                  const Shape& shape);

// Collective; rank 0 shows it.
// `world`: the workers, then the servers.
void show_summary(Screen& screen, const Worker& worker, const communicator& world,
                  Strategy& strategy, const std::vector<StepRecord>& history);

}  // namespace tutti::train
