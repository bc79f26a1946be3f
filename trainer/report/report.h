// What is written when a run is over: a page with curves and time lines, a trace for Perfetto.
#pragma once

#include <vector>

#include "trainer/report/history.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// Collective over the workers: what --report and --trace ask for. The page is self-contained HTML:
// loss, the last step of every rank, time of each bucket, the figures. The trace has Chrome's
// format, one process a rank, one thread a lane.
void write_records(const Worker& worker, const Strategy& strategy,
                   const std::vector<StepRecord>& history);

}  // namespace tutti::train
