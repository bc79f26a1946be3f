// What a communicator has prepared for the calls that it may see again. Calls alike but for their
// number of elements and the lengths of their blocks share one CallPlan as far as they are decided
// alike: within a size class (select.h). So programs whose counts change all the time pay for the
// choice once in a class; making ready for another count is a few instructions.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "lib/comm/call_plan.h"

namespace tutti {

class CallCache {
 public:
  using Entry = std::shared_ptr<CallPlan>;

  // What is ready for `key`; null if nothing like it is known. Stays where it is until the next
  // find() or add(), unless the caller takes a share of it: what is shared is not made ready for
  // other counts.
  const Entry* find(const CallKey& key) {
    Set& set = sets_[set_of(key)];
    if (set.last != nullptr && set.last->key == key) [[likely]]
      return &set.last;
    return find_alike(set, key);
  }
  const Entry* add(Entry made);

 private:
  // Of calls whose keys have the same hash: the last one, which most calls are like, and others.
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
