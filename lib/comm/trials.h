// The trials of a communicator, one for each class of calls that can go several ways. They outlive
// CallPlans, of which a rank may make more than another, so that all ranks count the same calls.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "lib/call/call.h"
#include "lib/select/trial.h"

namespace tutti {

class Trials {
 public:
  // That of the calls like `key`, its level filled in, with these counts, which can go `ways` ways;
  // `long_calls`: as in Trial.
  // *tag: what tells it from others, the same on all ranks.
  std::shared_ptr<Trial> of(const CallKey& key, const Counts& counts, uint32_t ways,
                            bool long_calls, uint16_t* tag);
  // The same; null if there has been no such call.
  const Trial* find(const CallKey& key, const Counts& counts, uint32_t ways) const;

 private:
  // By a hash of what its calls have in common. Their number has no limit: ranks may make ready
  // calls that others do not make, and would be at odds about which are beyond it.
  std::unordered_map<uint64_t, std::shared_ptr<Trial>> trials_;
};

}  // namespace tutti
