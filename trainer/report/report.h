// The files written at the end of a run: a page with curves and timelines, a trace for Perfetto.
#pragma once

#include <vector>

#include "trainer/report/history.h"
#include "trainer/report/summary.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// Collective over the workers: writes the files of --report and --trace. The page is self-contained
// HTML: loss, the last step of every rank, time of each bucket, the figures. The trace has Chrome's
// format, one process per rank, one thread per lane.
void write_records(const Worker& worker, const std::vector<StepRecord>& history,
                   const Summary& summary);

}  // namespace tutti::train
