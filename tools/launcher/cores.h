// What others have of this host's cores: other jobs of tutti, by claims, and anybody, by time.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/fd.h"

namespace tutti {

// A core that no other job takes while this lives. It is an abstract Unix socket named after the
// core: the kernel drops it with its holder, there is nothing to clean up and no file to attack,
// and jobs of all users see it that share a network namespace. Whoever takes such names without
// running ranks makes others run unbound, no worse.
class CoreClaim {
 public:
  // False if another job holds the core, which is named by its first processor. Where the system
  // has no such sockets nobody can hold one, and every core can be had.
  static bool take(unsigned cpu, CoreClaim* out);

 private:
  Fd socket_;
};

// Time that each processor has been idle since the host began, in steps of 10 ms.
class IdleTimes {
 public:
  static IdleTimes now();
  // The share of the time since `before` in which the processor was idle, or taken away by a
  // hypervisor, which no program of this host did; 1 where the system does not say.
  double share_since(const IdleTimes& before, unsigned cpu) const;
  uint64_t ns() const { return ns_; }

 private:
  uint64_t ns_ = 0;                // when it was read
  std::vector<uint64_t> idle_ns_;  // by processor
};

// Whether nothing but the caller is ready to run just now.
bool nothing_else_runs();

}  // namespace tutti
