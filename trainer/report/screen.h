// The output that the user sees during and after training; rank 0 only.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/report/script.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

struct StepRecord {
  int64_t step = 0;
  double seconds = 0;
  double samples_per_s = 0;
  StepFigures figures;
  double validation = 0;  // 0: not measured
};

// Of a run with --elastic: workers that were lost, or came. Ranks are numbered as at the start,
// those that came after the last.
struct Change {
  int64_t step = 0;  // steps that were made until then
  std::vector<int> lost, came;
  int workers = 0;     // from now on
  double seconds = 0;  // in which nobody computed, as this rank saw it
  double end = 0;      // of that, by now()
};

// Text with only characters that a terminal prints as they are.
std::string printable(const std::string& text);

// What a terminal shows while the run goes on, in `columns` at most: the most important first, and
// a bar where there is room. `left`: seconds.
std::string progress_line(const StepRecord& record, int64_t steps, double left, size_t columns);

class Screen {
 public:
  // Opens what --json, --csv and --tensorboard name; BadInput if it cannot.
  Screen(const Options& options, bool shows);
  ~Screen();

  // This rank shows what comes from now on, in the place of another: files go on.
  void take_over();
  bool shows() const { return shows_; }

  void line(const std::string& text);  // to stdout, unless that has the figures
  void step(const StepRecord& record, const nlohmann::json& more);
  void record(const nlohmann::json& object);   // to --json alone; null where it is not finite
  void summary(const nlohmann::json& object);  // the last one

 private:
  void open(bool goes_on);

  const Options& options_;
  bool shows_ = false;
  bool bar_ = false;
  std::shared_ptr<std::FILE> json_, csv_;
  std::unique_ptr<Script> events_;
  double next_line_ = 0;
  double began_ = 0;
  int64_t first_ = -1;  // the first step
};

}  // namespace tutti::train
