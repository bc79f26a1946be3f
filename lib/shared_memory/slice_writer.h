// Copies slices to where other cores read them: with ordinary stores, which leave the lines in the
// writer's caches, or with non-temporal ones, which send them past the caches. Which is faster
// depends on the processor, on where the cores are and on the length (notes.md), so a call says
// which it wants, and a setting may overrule it.
#pragma once

#include "lib/reduce/copy.h"

namespace tutti::shared {

enum class SlicePath : uint8_t { as_called, cached, non_temporal };

class SliceWriter {
 public:
  explicit SliceWriter(SlicePath path)
      : path_(path), non_temporal_(path == SlicePath::non_temporal) {}

  // A call begins.
  void begin(bool non_temporal) {
    if (path_ == SlicePath::as_called) non_temporal_ = non_temporal;
  }
  // For callers that write slices themselves: whether to use non-temporal stores. They are fenced
  // by the caller.
  bool non_temporal() const { return non_temporal_; }
  // As memcpy(). A peer that sees a flag posted after it sees the copy, too.
  void copy(std::byte* to, const std::byte* from, size_t bytes) {
    copy_bytes(to, from, bytes, non_temporal_);
    if (non_temporal_) stream_fence();
  }

 private:
  const SlicePath path_;
  bool non_temporal_;
};

}  // namespace tutti::shared
