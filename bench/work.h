// Computing that a rank does beside a call.
#pragma once

#include <cstddef>

namespace tutti::bench {

// A loop of fixed length: what takes the processor away from it makes it longer, unlike one that
// looks at the clock. No memory, no system calls.
class Work {
 public:
  Work() = default;
  // What takes about so long on this core when nothing else runs.
  static Work lasting(double us);
  // The `part`-th of `parts` equal parts of it.
  void run(size_t part = 0, size_t parts = 1) const;

 private:
  explicit Work(size_t steps) : steps_(steps) {}
  size_t steps_ = 0;
};

}  // namespace tutti::bench
