// The computation that a rank overlaps with a call.
#pragma once

#include <cstddef>

namespace tutti::bench {

// A loop of fixed length: preemption makes it longer, unlike a loop that polls the clock. It uses
// no memory and no system calls.
class Work {
 public:
  Work() = default;
  // Work that takes about `us` on this core when nothing else runs.
  static Work lasting(double us);
  // Runs the `part`-th of `parts` equal parts of it.
  void run(size_t part = 0, size_t parts = 1) const;

 private:
  explicit Work(size_t steps) : steps_(steps) {}
  size_t steps_ = 0;
};

}  // namespace tutti::bench
