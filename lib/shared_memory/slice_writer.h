// Copies slices to where other cores read them: with ordinary stores, or with non-temporal ones.
// Among cores that share a cache, an ordinary store leaves the line where the reader finds it.
// Where lines come from afar, the cache of the last reader must give up each line first, and the
// next reader fetches it from the writer's cache: there non-temporal stores, through memory, are
// several times as fast (notes.md).
//
// How far the others are may change while a communicator lives, because hosts move virtual machines
// from core to core. So it is measured now and then, by each rank for itself: how long does a line
// take to come that another rank has just changed?
#pragma once

#include <vector>

#include "lib/shared_memory/flag_lines.h"

namespace tutti::shared {

enum class SlicePath : uint8_t { measured, cached, non_temporal };

class SliceWriter {
 public:
  // `link` must have cells.
  SliceWriter(slots::SlotLink& link, SlicePath path);

  // As memcpy(). Whoever sees what is posted after it sees it, too.
  void copy(std::byte* to, const std::byte* from, size_t bytes);
  // The same for who writes them otherwise: before so many bytes, whether with non-temporal
  // stores.
  bool non_temporal(size_t bytes) {
    until_look_bytes_ -= int64_t(bytes);
    if (until_look_bytes_ <= 0) look();
    return far_;
  }
  // What the last look has found.
  bool far() const { return far_; }
  // This rank has read a slice: gives the others something to look at.
  void has_read() {
    flags_.at(flags_.self(), line::distance).flag.store(++slices_read_, std::memory_order_relaxed);
  }

 private:
  void look();
  void decide(uint64_t time_ns);
  // How long the line of `rank` took to come, in nanoseconds; 0 if it had not changed.
  uint64_t time_of_line(uint32_t rank);

  FlagLines flags_;
  SlicePath path_;
  std::vector<uint64_t> seen_;  // last, of each rank's line
  uint32_t next_ = 0;           // rank to look at
  bool far_ = false;
  uint32_t contrary_looks_ = 0;
  int64_t until_look_bytes_ = 0;
  uint64_t slices_read_ = 0;
};

}  // namespace tutti::shared
