// Who is at the others' vectors. Processes keep each other's memory mapped; of threads a rank that
// withdraws its vectors, which may be gone then, waits until nobody is at them, which takes bounded
// time. Either a reader sees that they were withdrawn, or the owner sees that it has begun.
#pragma once

#include <thread>

#include "lib/shared_memory/flag_lines.h"
#include "lib/shared_memory/regions.h"

namespace tutti::shared {

class VectorAccess {
 public:
  // Both outlive this.
  VectorAccess(FlagLines& flags, const Regions& regions) : flags_(flags), regions_(regions) {}

  // This rank is about to touch others' vectors. `sequence`: the call's, not that of any other call
  // that may run. False: `are_posted()`, which looks whether all of them still are, says no.
  template <class ArePosted>
  bool begin(uint32_t sequence, uint32_t digest, ArePosted&& are_posted) {
    if (regions_.may_vanish()) {
      flags_.set(line::begun, sequence, digest);
      slots::fence(std::memory_order_seq_cst);  // pairs with wait_for_others()
    }
    if (are_posted()) return true;
    end();
    return false;
  }
  // It touches them no more; also where it never began.
  void end() {
    if (regions_.may_vanish()) flags_.clear(line::begun);
  }
  // This rank has cleared what it had posted. `is_elsewhere(rank)`: it has ended the call.
  template <class IsElsewhere>
  void wait_for_others(uint32_t sequence, uint32_t digest, IsElsewhere&& is_elsewhere) {
    // Orders the cleared flags before what the caller writes now; pairs with begin().
    slots::fence(std::memory_order_seq_cst);
    if (!regions_.may_vanish()) return;
    for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
      if (rank == flags_.self()) continue;
      while (flags_.flag(rank, line::begun) == make_flag(sequence, digest) && !is_elsewhere(rank))
        std::this_thread::yield();
    }
  }

 private:
  FlagLines& flags_;
  const Regions& regions_;
};

}  // namespace tutti::shared
