// A stretch: ranks are started, make calls for a while under watch, and end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/transports.h"
#include "tools/tutti-soak/board.h"

namespace tutti::soak {

// How ranks are joined and where they run.
struct Configuration {
  std::string transport;
  int ranks = 2;
  bool crowded = false;  // fewer cores than ranks

  bool as_threads() const { return bench::joins_threads_only(transport); }
  std::string name() const;
  bool operator==(const Configuration&) const = default;
};

struct Tally {
  uint64_t calls = 0, bytes = 0, wrong = 0, refused = 0, hangs = 0, failed = 0;

  bool good() const { return wrong + hangs + failed == 0; }
  void operator+=(const Tally& other);
};

struct StretchPlan {
  Configuration configuration;
  uint64_t seed = 1;
  uint64_t from_step = 0, steps = 0;
  double seconds = 0;
  double timeout_s = 30;

  // Chosen by the seed: threads of a rank, and settings of the library.
  int threads() const;
};

struct StretchEnd {
  Tally tally;
  bool not_here = false;  // the machine does not have the transport
};

// Runs it to its end. `progress` is called with the tally so far, several times a second; when it
// returns false, the stretch ends early. Throws std::runtime_error if ranks cannot be started.
StretchEnd run_stretch(const StretchPlan& plan, const std::function<bool(const Tally&)>& progress);

// CPUs of different cores that this process may use.
int usable_core_count();

}  // namespace tutti::soak
