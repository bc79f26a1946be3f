// Starts local ranks, waits for them, and leaves no process behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tutti/binding.h"

namespace tutti {

struct LocalJob {
  int nranks = 1;
  std::vector<std::string> command;  // a program, sought in PATH, and its arguments
  std::string transports;            // TUTTI_TRANSPORTS of the ranks; empty: as it is
  std::string interface;             // TUTTI_INTERFACE likewise
  bool prefix = false;               // "[rank] " before every line that a rank prints
  int64_t timeout_ms = 0;            // of the whole job; 0: none
  Bind bind = Bind::core;
};

// Runs the job to its end. *exit_status becomes that of the rank that failed first (128 + signal
// for a signal, 127 for a program that cannot be started), 124 after the timeout, 128 + signal when
// the launcher is told to stop, else 0; what went wrong stands in one sentence on stderr. A status
// other than OK: nothing was started.
//
// When a rank fails, the others have 1.5 s to find out for themselves, then SIGTERM and 2 s more.
Status run_local(const LocalJob& job, int* exit_status);

}  // namespace tutti
