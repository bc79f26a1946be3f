// The trials of a communicator, one for each class of calls that can go several ways. They outlive
// CallPlans, of which a rank may make more than another, so that all ranks count the same calls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/call/call.h"
#include "lib/select/trial.h"

namespace tutti {

class Trials {
 public:
  // That of the calls like `key`, its level filled in, with these counts, which can go `ways` ways;
  // null if there are too many trials already. *tag: what tells it from others, the same on all
  // ranks.
  std::shared_ptr<Trial> of(const CallKey& key, const Counts& counts, uint32_t ways, uint16_t* tag);
  // The same; null if there has been no such call.
  const Trial* find(const CallKey& key, const Counts& counts, uint32_t ways) const;

 private:
  static constexpr size_t most_trials = 1024;
  struct Entry {
    uint64_t of;  // a hash of what its calls have in common
    uint32_t ways;
    std::shared_ptr<Trial> trial;
  };
  const Entry* find(uint64_t hash, uint32_t ways) const;

  std::vector<Entry> entries_;
};

}  // namespace tutti
