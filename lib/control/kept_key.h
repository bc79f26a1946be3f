// The key of a job while a communicator needs it: in a page of its own, which core dumps leave out
// and children made by fork() find empty, where the system can do that.
#pragma once

#include <memory>

#include "lib/control/job_key.h"

namespace tutti {

class KeptKey {
 public:
  KeptKey() : KeptKey(JobKey{}) {}
  explicit KeptKey(const JobKey& key);  // throws std::bad_alloc

  operator const JobKey&() const { return *key_; }

 private:
  struct Free {
    void operator()(JobKey* key) const;
    bool is_mapped;
  };
  std::unique_ptr<JobKey, Free> key_;
};

}  // namespace tutti
