// The first and the last output of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/pipeline/figures.h"
#include "trainer/report/screen.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

void show_heading(Screen& screen, const Worker& worker, const Strategy& strategy,
                  const Shape& shape);

// Collective over the workers: a digest of the model's parameters and of which rank has which.
// Throws Failure if copies that should be equal are not.
std::string checked_digest(const Worker& worker);

// What is shown of a whole run; on rank 0 alone.
struct Summary {
  std::vector<std::pair<std::string, std::string>> lines;  // a name and a text each
  PipelineFigures pipeline;                                // where there is one
};
// Collective; rank 0 shows it. `world`: the workers, then the servers.
Summary show_summary(Screen& screen, const Worker& worker, const communicator& world,
                     Strategy& strategy, const std::vector<StepRecord>& history,
                     const std::vector<Change>& changes);

// "rank 2 was lost in step 8: 3 workers go on after 0.10 s"; the same in the --json file.
std::string sentence_of(const Change& change);
nlohmann::json object_of(const Change& change);

// Collective over the workers: writes the files of --report and --trace (Chrome's format, one
// process a rank, one thread a lane).
void write_records(const Worker& worker, const std::vector<StepRecord>& history,
                   const Summary& summary);

}  // namespace tutti::train
