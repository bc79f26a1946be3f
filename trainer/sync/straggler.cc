#include "trainer/sync/straggler.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "trainer/common/error.h"
#include "trainer/common/random.h"

namespace tutti::train {

Straggler Straggler::of(const Options& o) {
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

double Straggler::slows(uint64_t seed, int64_t step, int worker) const {
  if (!jitter) return worker == rank ? factor : 1;
  return 1 - std::log1p(-fraction(mixed(seed, uint64_t(step), uint64_t(worker))));
}

void straggle(const Options& o, int64_t step, int worker, double seconds) {
  if (o.straggler.empty()) return;
  const double more = Straggler::of(o).slows(o.seed, step, worker) - 1;
  std::this_thread::sleep_for(std::chrono::duration<double>(more * seconds));
}

}  // namespace tutti::train
