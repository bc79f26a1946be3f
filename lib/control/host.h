// Where a rank runs: whether two ranks can share memory, and whether a host has a core for each.
#pragma once

#include <sched.h>

#include <cstdint>
#include <span>
#include <string>

#include "lib/base/status.h"

namespace tutti {

// Sent as it is in memory, while a communicator is made.
struct HostRecord {
  uint8_t boot_id[16] = {};
  uint64_t process_namespace = 0;
  uint64_t network_namespace = 0;
  uint64_t process_cookie = 0;  // random, one a process
  int32_t pid = 0;
  uint32_t uid = 0;         // outside the process's user namespace
  cpu_set_t cores = {};     // that the process may run on
  uint32_t transports = 0;  // those that it offers: offered_transports()
  int32_t cache = -1;       // the last-level cache that all `cores` share: its first core; -1: none

  static Status own(HostRecord* out);
  bool same_process(const HostRecord& other) const {
    return same_host(other) && pid == other.pid && process_cookie == other.process_cookie;
  }
  // The same kernel and PID namespace: each has the other's process under its number.
  bool sees(const HostRecord& other) const;
  // The same kernel, user, PID namespace and network namespace.
  bool same_host(const HostRecord& other) const;
};

// The size of the groups of consecutive ranks that share a last-level cache, if there are at least
// two such groups, all equally large (the last may be smaller); else the number of ranks.
uint32_t cache_group(std::span<const HostRecord> records);

// How many ranks run on the host of `records[self]` for each of the cores that they may run on; 1
// where these are unknown.
double ranks_per_core(std::span<const HostRecord> records, size_t self);

}  // namespace tutti
