// Copies slices to where other cores read them: with ordinary stores, or with non-temporal ones.
// Among cores that share a last-level cache ("near"), an ordinary store leaves the line where the
// reader finds it. Among others ("far") the last reader's copy of each line must be invalidated
// first, and the next reader fetches the line from the writer's cache: there non-temporal stores,
// through memory, are several times as fast (notes.md).
//
// Whether cores share a cache may change during the life of a communicator, because hosts move
// virtual machines from core to core. So each rank measures it now and then for itself: how long
// does the transfer of a line take that another rank has just changed?
#pragma once

#include <vector>

#include "lib/shared_memory/flag_lines.h"
#include "lib/tuning/tuning.h"

namespace tutti::shared {

enum class SlicePath : uint8_t { measured, cached, non_temporal };

class SliceWriter {
 public:
  // `link` must have cells.
  SliceWriter(slots::SlotLink& link, SlicePath path, const Tuning& tuning);

  // As memcpy(). A peer that sees a flag posted after it sees the copy, too.
  void copy(std::byte* to, const std::byte* from, size_t bytes);
  // For callers that write slices themselves: to be called before `bytes` bytes are written;
  // whether to use non-temporal stores. They are fenced by the caller.
  bool non_temporal(size_t bytes) {
    until_look_bytes_ -= int64_t(bytes);
    if (until_look_bytes_ <= 0) look();
    return far_;
  }
  // Whether lines of other ranks come from another last-level cache, as far as measured.
  bool far() const { return far_; }
  // This rank has read a slice: changes its line, so that the others can time the transfer of it.
  void has_read() {
    flags_.at(flags_.self(), line::distance).flag.store(++slices_read_, std::memory_order_relaxed);
  }

 private:
  void look();
  void decide(uint64_t time_ns);
  // How long the transfer of `rank`'s line took, in nanoseconds; 0 if it had not changed.
  uint64_t time_of_line(uint32_t rank);

  FlagLines flags_;
  SlicePath path_;
  const Tuning tuning_;
  std::vector<uint64_t> seen_;  // the last value of each rank's line
  uint32_t next_ = 0;           // the rank that was timed last
  bool far_ = false;
  uint32_t contrary_looks_ = 0;
  int64_t until_look_bytes_ = 0;
  uint64_t slices_read_ = 0;
};

}  // namespace tutti::shared
