// A process between the launcher and the ranks, so that nothing stays whichever of the two is
// killed: it is the parent of the ranks and of all orphans that these leave.
#pragma once

#include <functional>

#include "lib/base/fd.h"
#include "lib/base/status.h"

namespace tutti {

// What the work in the keeper watches.
struct Kept {
  int signals = -1;  // a signalfd: those that the launcher got
  int keeper = -1;   // readable once the launcher has been killed
};

// Runs `work` in a child of this process, which must have one thread, and returns what it returns.
// `signals`: a signalfd of blocked signals, which are passed on. If the child is killed its
// descendants are, too, and *exit_status is 128 + SIGKILL.
Status keep(const Fd& signals, const std::function<Status(const Kept&, int* exit_status)>& work,
            int* exit_status);

// Kills and reaps the children of this process, and those that become its children meanwhile.
void end_descendants();

}  // namespace tutti
