#include "lib/shared_memory/slice_writer.h"

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/reduce/copy.h"

namespace tutti::shared {

SliceWriter::SliceWriter(slots::SlotLink& link, SlicePath path, const Tuning& tuning)
    : flags_(link),
      path_(path),
      tuning_(tuning),
      seen_(flags_.nranks()),
      far_(path == SlicePath::non_temporal) {}

void SliceWriter::copy(std::byte* to, const std::byte* from, size_t bytes) {
  const bool past = non_temporal(bytes);
  copy_bytes(to, from, bytes, past);
  if (past) stream_fence();
}

uint64_t SliceWriter::time_of_line(uint32_t rank) {
  flags_.flag(rank, line::identity);  // mostly of the same page: a TLB miss is not timed
  const uint64_t begin = now_ns();
  const uint64_t found = flags_.flag(rank, line::distance);
  const uint64_t middle = now_ns();
  const uint64_t end = now_ns();  // for the time that the clock itself takes
  if (found == seen_[rank]) return 0;
  seen_[rank] = found;
  return std::max<int64_t>(1, int64_t(middle - begin) - int64_t(end - middle));
}

void SliceWriter::look() {
  until_look_bytes_ = int64_t(tuning_.look_bytes);
  if (path_ != SlicePath::measured) return;
  uint64_t longest = 0;
  const uint32_t others = flags_.nranks() - 1;
  for (uint32_t i = 0; i < std::min(others, tuning_.look_lines); ++i) {
    next_ = (next_ + 1) % flags_.nranks();
    if (next_ == flags_.self()) next_ = (next_ + 1) % flags_.nranks();
    longest = std::max(longest, time_of_line(next_));
  }
  if (longest != 0) decide(longest);
}

void SliceWriter::decide(uint64_t time_ns) {
  contrary_looks_ = (time_ns > tuning_.far_ns) == far_ ? 0 : contrary_looks_ + 1;
  // One may have been interrupted. A line of another last-level cache may also have arrived before
  // the load, now and then three times in a row; a line of the same cache never takes long.
  if (contrary_looks_ < (far_ ? tuning_.looks_to_near : tuning_.looks_to_far)) return;
  far_ = !far_;
  contrary_looks_ = 0;
}

}  // namespace tutti::shared
