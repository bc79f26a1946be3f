// Starts local ranks, waits for them, and leaves no process behind.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/launcher/binding.h"

namespace tutti {

struct LocalJob {
  int nranks = 1;
  std::vector<std::string> command;  // a program, sought in PATH, and its arguments
  // Called in the ranks' processes instead of `command`, unless it is null; what it returns is
  // their exit status. They are forks of this process, which must have one thread then.
  std::function<int()> function;
  std::string transports;             // TUTTI_TRANSPORTS of the ranks; empty: unchanged
  std::string interface;              // TUTTI_INTERFACE likewise
  std::map<int, std::string> faults;  // TUTTI_FAULT of some ranks
  bool prefix = false;                // "[rank] " before every line that a rank prints
  int64_t timeout_ms = 0;             // of the whole job; 0: none
  int64_t stop_ms = 2000;  // from a signal to the launcher, which ranks get, too, to SIGKILL
  Bind bind = Bind::core;
  bool keep_going = false;  // a rank that is ended by a signal does not end the others
  bool verbose = false;  // says on stderr which ranks are bound to what, or why not, and who moves
};

// Runs the job to its end. *exit_status becomes that of the rank that failed first (128 + signal
// for a signal, 127 for a program that cannot be started), 124 after the timeout, 128 + signal when
// the launcher is told to stop, else 0; the cause is one sentence on stderr. A status other than
// OK: no rank was started.
//
// When a rank fails, the others have 1.5 s to detect it, then get SIGTERM and 2 s more. With
// keep_going one that a signal ends is only named on stderr, unless no other ends well.
//
// This process must have one thread: the ranks' parent is a fork of it (keeper.h).
Status run_local(const LocalJob& job, int* exit_status);

}  // namespace tutti
