// Allreduce of a very short vector among ranks grouped by last-level cache: every rank publishes
// its vector, folds what its group has published, publishes the group's result, and folds the
// results of all groups. Implements two-level, bit for bit. staging.h says why no acknowledgements
// are needed.
#pragma once

#include <vector>

#include "algorithms/patterns.h"
#include "lib/base/transfers.h"
#include "lib/shared_memory/staging.h"

namespace tutti::shared {

class TwoLevel {
 public:
  TwoLevel(Staging& staging, uint32_t group_size);

  // The longest vector, in bytes: it and the group's result share a resident place.
  static size_t most_bytes(const Tuning& tuning) { return tuning.resident_bytes / 2; }

  void start(const AllreduceCall& call);
  bool advance() { return group_folded_ ? fold_groups() : fold_group(); }
  bool done() const { return done_; }
  const Status& failure() const { return failure_; }
  void withdraw() {}
  int waits_for() const;
  int needs() const { return waits_for(); }
  const Transfers& transfers() const { return transfers_; }

 private:
  bool fold_group();
  bool fold_groups();
  uint32_t vector_line() const { return line::one_shot + 2 * (sequence_ & 1); }
  uint32_t group_line() const { return line::group + 2 * (sequence_ & 1); }
  bool published_vector(uint32_t rank) const {
    return staging_.flags().posted(rank, vector_line(), sequence_, call_.digest);
  }
  bool published_group(uint32_t rank) const {
    return staging_.flags().posted(rank, group_line(), sequence_, call_.digest);
  }
  // Where they lie.
  std::byte* vector_of(uint32_t rank) const;
  std::byte* group_result(uint32_t rank) const;

  Staging& staging_;
  const TwoLevels levels_;
  uint32_t group_readers_ = 0;  // ranks that read the own group's result here
  AllreduceCall call_;
  bool done_ = true;
  uint32_t sequence_ = 0;
  bool group_folded_ = false;  // the own group's result is published
  std::vector<const void*> operands_;
  Transfers transfers_;
  Status failure_;
};

}  // namespace tutti::shared
