// The steps of a run: each is made; then all decide whether it was the last one, and it is kept and
// shown as is due.
#pragma once

#include "trainer/workers.h"

namespace tutti::train {

// Makes the steps that are left; `progress`: where the run begins, or has come to when this process
// joined it. Returns the exit status.
int run_steps(Workers& workers, Screen& screen, const Progress& progress);

}  // namespace tutti::train
