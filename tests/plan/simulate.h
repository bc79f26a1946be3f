// All ranks of a collective in one thread: a seed decides who moves next, time is virtual, and
// ranks can be made to die. The executors, links and rings are the real ones; only the scheduler
// and the clock are not.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/mapping.h"
#include "lib/plan/plan.h"
#include "lib/reduce/reduce.h"
#include "lib/schedule/algorithm.h"
#include "lib/slots/slot_link.h"

namespace tutti::plan {

struct SimulationSettings {
  uint64_t seed = 1;
  uint32_t nranks = 2;
  // Tiny by default, so that streams fill up and wrap around often.
  uint32_t slots = 2;
  uint32_t slice_bytes = 64;
  uint64_t timeout_ns = 30'000'000'000u;  // of each call, in virtual time
  // A rank that dies, -1: none; it dies after this many of its own moves.
  int dies = -1;
  uint64_t dies_after_moves = 0;
};

// What became of one rank's call.
struct SimulatedEnd {
  Status status;          // TIMEOUT, PEER_FAILED ... as a real call would give
  uint64_t ended_ns = 0;  // virtual
  bool died = false;
};

class Simulation {
 public:
  static Status make(const SimulationSettings& settings, std::unique_ptr<Simulation>* out);

  // Runs one call on all ranks until every one has ended. input and output are `count` elements of
  // `element_size` bytes a rank and may be the same vectors (in place). `skips`: a rank that does
  // not make the call at all, -1: none.
  std::vector<SimulatedEnd> run(const Algorithm& algorithm, uint32_t root,
                                const std::vector<std::byte*>& inputs,
                                const std::vector<std::byte*>& outputs, uint64_t count,
                                uint32_t element_size, const Kernels& kernels, int skips = -1);

  uint64_t now_ns() const { return now_ns_; }
  // A digest of every decision so far: the same seed gives the same trace.
  uint64_t trace() const { return trace_; }

 private:
  class DeadRanks;
  explicit Simulation(const SimulationSettings& settings) : settings_(settings) {}
  uint64_t draw();

  SimulationSettings settings_;
  std::vector<std::unique_ptr<slots::SlotLink>> links_;
  std::shared_ptr<std::vector<bool>> dead_;
  std::vector<uint64_t> moves_;
  uint64_t random_ = 0;
  uint64_t now_ns_ = 1;
  uint64_t epoch_ = 0;
  uint64_t trace_ = 0;
};

}  // namespace tutti::plan
