// Ranks that keep losing their cores to other programs get others, or are unbound.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/launcher/binding.h"
#include "tools/launcher/ranks.h"
#include "tools/launcher/threads.h"

namespace tutti {

class Neighbours {
 public:
  Neighbours(Binding& binding, Ranks& ranks);

  // When to look the next time.
  uint64_t next_ns() const { return next_ns_; }
  // Compares what ranks had of their cores since the last time with what others had, and moves
  // ranks. What it did, in one line; "" for nothing.
  std::string look();

 private:
  struct Seen {
    IdleTimes idle;
    std::vector<std::map<pid_t, Turns>> turns;  // by rank
  };
  Seen see() const;
  // How long the rank's threads waited while others had its core, by rank.
  std::vector<double> lost_ns(const Seen& now) const;
  std::string move(int rank, const Seen& now);
  void rebind(int rank, const CpuSet& from) const;

  Binding& binding_;
  Ranks& ranks_;
  Seen last_;
  std::vector<int> losses_;  // by rank: in how many looks in a row it lost its core
  uint64_t next_ns_;
};

}  // namespace tutti
