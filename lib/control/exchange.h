// How the ranks of a new communicator tell each other where they are: an all-gather of small texts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace tutti {

// The secret of a job: who holds it belongs to it. Never logged, never in an argument vector.
using JobKey = std::array<uint8_t, 32>;

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int nranks() const = 0;
  virtual const JobKey& key() const = 0;
  // Collective: (*all)[r] becomes what rank r passed. Lengths may differ; at most 64 KiB each.
  virtual Status allgather(std::string_view mine, uint64_t deadline_ns,
                           std::vector<std::string>* all) = 0;
  // For whoever waits, between two all-gathers, for what other ranks do elsewhere: whether it is
  // known that they will not come to the next. Never blocks.
  virtual Status look() { return {}; }
  // The address of this host through which the ranks found each other; empty where they did not by
  // IP.
  virtual std::string local_address() const { return {}; }
};

}  // namespace tutti
