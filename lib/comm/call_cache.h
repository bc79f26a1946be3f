// The CallPlans that a communicator keeps for later calls. Calls that differ only in their number
// of elements and the lengths of their blocks share one CallPlan if they are decided alike, that is
// within a size class (select.h). So a program whose counts change all the time pays for the choice
// once per class; making a CallPlan ready for another count takes a few instructions.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "lib/comm/call_plan.h"

namespace tutti {

class CallCache {
 public:
  using Entry = std::shared_ptr<CallPlan>;

  // The CallPlan made ready for `key`; null if none serves it. The pointer is valid until the next
  // find() or add(). A caller that keeps the CallPlan longer copies the Entry; while it has, the
  // CallPlan is not made ready for other counts.
  const Entry* find(const CallKey& key) {
    Set& set = sets_[set_of(key)];
    if (set.last != nullptr && set.last->key == key) [[likely]]
      return &set.last;
    return find_alike(set, key);
  }
  const Entry* add(Entry made);

 private:
  // CallPlans whose keys have the same hash: the one found last, which serves most calls, and
  // others.
  struct Set {
    Entry last;
    std::vector<Entry> others;
  };
  static constexpr size_t most_others = 16;

  static size_t set_of(const CallKey& key) {
    const uint32_t kind = uint32_t(key.root) ^ uint32_t(key.dtype) << 8 ^ uint32_t(key.op) << 13 ^
                          uint32_t(key.collective) << 18 ^ uint32_t(key.level) << 23 ^
                          uint32_t(key.algorithm.size()) << 26;
    const uint64_t mixed = size_class(key.count) ^ uint64_t(kind) << 6;
    return mixed * 0x9e3779b97f4a7c15u >> 58;
  }
  static const Entry* find_alike(Set& set, const CallKey& key);

  std::array<Set, 64> sets_;
};

}  // namespace tutti
