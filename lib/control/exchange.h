// How the ranks of a new communicator exchange their addresses: an all-gather of small texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/job_key.h"

namespace tutti {

class Exchange {
 public:
  static constexpr uint32_t most_text_bytes = 64 << 10;

  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int nranks() const = 0;
  virtual const JobKey& key() const = 0;
  // Collective: (*all)[r] becomes what rank r passed. Lengths may differ; at most most_text_bytes
  // each.
  virtual Status allgather(std::string_view mine, uint64_t deadline_ns,
                           std::vector<std::string>* all) = 0;
  // For ranks that wait for each other, between two all-gathers, by other means. alarm(): this rank
  // has failed, and `why` is told as it is; the exchange is over. look(): an error if a rank has
  // said so, or is known to be gone. Neither blocks. Where alarms go nowhere, the others wait until
  // their deadline.
  virtual void alarm(const Status& why) { (void)why; }
  virtual Status look() { return {}; }
  // Whether, as of the last look(), a host has not answered for a moment: look() will tell.
  virtual bool suspects() const { return false; }
  // The IP address of this host through which the ranks found each other; empty if they did
  // otherwise.
  virtual std::string local_address() const { return {}; }
};

}  // namespace tutti
