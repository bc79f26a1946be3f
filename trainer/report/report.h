// What is written when a run is over: a page with curves and time lines, a trace for Perfetto.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/report/history.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// Collective over the workers: the events of all, by rank; on rank 0 only.
std::vector<std::vector<Event>> gather_events(const Worker& worker);

// Chrome's trace format, one process a rank, one thread a lane.
void write_trace(const std::string& path, const std::vector<std::vector<Event>>& events);

// Self-contained HTML: loss, the last step of every rank, time of each bucket, the figures.
// `formula`: what the busiest worker sends in a step by theory; `pipeline`: a section, or empty.
void write_report(const std::string& path, const Options& options,
                  const std::vector<StepRecord>& history, const Totals& totals,
                  const Volume& formula, const std::vector<std::vector<Event>>& events,
                  const std::string& pipeline);

}  // namespace tutti::train
