// The side of the ranks: what a process of a stretch does.
#pragma once

#include <string>

#include "tools/tutti-soak/worker.h"

namespace tutti::soak {

struct RankOptions {
  std::string board;   // path; empty: this process watches over others
  int as_threads = 0;  // so many ranks in this process; 0: one, which a launcher started
  int threads = 1;     // of each rank, with communicators of their own
  double timeout_s = 30;
  WorkerOptions work;
};

constexpr int not_here_status = 77;  // the transport is not available

// Runs until the stretch is over. Returns the exit status.
int run_ranks(const RankOptions& options);

}  // namespace tutti::soak
