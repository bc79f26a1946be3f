// --straggler: workers that take longer than they need, so that one sees what ways to agree that
// wait for nobody are for.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "trainer/common/error.h"
#include "trainer/common/options.h"
#include "trainer/common/random.h"

namespace tutti::train {

struct Straggler {
  int rank = -1;        // the one that is slow; -1: none
  double factor = 1;    // how many times as long it takes
  bool jitter = false;  // all take, by turns, 1 + an exponential variate of mean 1 times as long
  // Of --straggler, RANK:FACTOR or jitter. Throws BadInput.
  static Straggler of(const Options& o) {
    Straggler found;
    if (o.straggler.empty()) return found;
    found.jitter = o.straggler == "jitter";
    if (found.jitter) return found;
    const char* const text = o.straggler.c_str();
    char *colon = nullptr, *end = nullptr;
    const long rank = std::strtol(text, &colon, 10);
    if (colon != text && *colon == ':') found.factor = std::strtod(colon + 1, &end);
    if (!end || end == colon + 1 || *end)
      throw BadInput(fmt::format("--straggler {}: is neither RANK:FACTOR nor jitter", o.straggler));
    if (rank < 0 || rank >= o.dp)
      throw BadInput(fmt::format("--straggler {}: the workers are 0 to {}", o.straggler, o.dp - 1));
    if (!(found.factor > 1 && found.factor <= 1000))
      throw BadInput(
          fmt::format("--straggler {}: the factor must be above 1 and at most 1000", o.straggler));
    found.rank = int(rank);
    return found;
  }
  // How many times as long this worker takes for a step.
  double slows(uint64_t seed, int64_t step, int worker) const {
    if (!jitter) return worker == rank ? factor : 1;
    return 1 - std::log1p(-fraction(mixed(seed, uint64_t(step), uint64_t(worker))));
  }
};

// Makes this worker's computation, which took `seconds`, as long as --straggler has it.
inline void straggle(const Options& o, int64_t step, int worker, double seconds) {
  if (o.straggler.empty()) return;
  const double more = Straggler::of(o).slows(o.seed, step, worker) - 1;
  std::this_thread::sleep_for(std::chrono::duration<double>(more * seconds));
}

}  // namespace tutti::train
