// The method: the subjects run in batches, one after the other in every round, so that a change of
// the machine's state affects all of them. bench/README.md says why.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "bench/rank.h"
#include "bench/shared_map.h"
#include "bench/stats.h"

namespace tutti::bench {

// In so many calls of a length tutti tries the ways that it has (lib/select/trial.h): they are made
// before any is measured.
constexpr size_t settling_calls = 56;

// What is measured.
class Subject {
 public:
  virtual ~Subject() = default;
  // Collective: `calls` calls back to back.
  virtual void run(size_t calls) = 0;
  // The same; the microseconds that count.
  virtual double run_us(size_t calls);
};

struct Method {
  size_t iterations = 0;  // calls per batch; 0: enough for a batch of least_batch_us
  size_t batches = 0;     // 0: as many as fit into `seconds`
  double seconds = 2;     // for all subjects of one measurement together
  double least_batch_us = 20;
  size_t most_iterations = 4096;  // where `iterations` is 0
};

struct Timing {
  size_t iterations = 0;
  size_t dropped = 0;            // batches excluded as in another state of the machine
  std::vector<double> batch_us;  // time of one call in each batch that counts; slowest rank's
};

struct Measurement {
  std::vector<Timing> timings;  // one per subject
  double hop_ns = 0;            // 0: unknown
};

// Collective. Every subject must have run at least once. `map` may be null: then the hop is
// unknown. `progress` (rank 0) is called with the fraction done.
Measurement measure(const Rank& me, SharedMap* map, const std::vector<Subject*>& subjects,
                    const Method& method, const std::function<void(double)>& progress);

}  // namespace tutti::bench
