// The steps of a run: each is made; then all decide whether it was the last one, and it is kept and
// shown as is due.
#pragma once

#include <string>
#include <vector>

#include "trainer/workers.h"

namespace tutti::train {

class StepLoop {
 public:
  // `progress`: where the run begins, or has come to when this process joined it.
  StepLoop(Workers& workers, Screen& screen, const Progress& progress)
      : workers_(workers), screen_(screen), progress_(progress) {}
  // Makes the steps that are left. Returns the exit status.
  int run();

 private:
  // Why a run ends before its last step.
  enum class Early { no, interrupted, diverged };

  Team& team() { return workers_.team(); }
  void make_step();
  void settle();
  Early early_end(bool meets, bool leaves, double& newcomers);
  int end();
  int exit_status();
  std::string way_on();
  void go_on();
  void note(const Change& change);

  Workers& workers_;
  Screen& screen_;
  Progress progress_;
  std::vector<StepRecord> history_;
  std::vector<Change> changes_;
  int64_t shown_ = 0;  // the last step whose figures this rank has shown
  Early early_ = Early::no;
  bool finite_ = true, last_ = false;
};

}  // namespace tutti::train
