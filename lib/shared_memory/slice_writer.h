// Copies slices to where other cores read them. By which stores is fastest depends on the
// processor, on where the cores are and on the length (notes.md), so a call says which it wants,
// and a setting may overrule it.
#pragma once

#include "lib/reduce/copy.h"
#include "lib/tuning/tuning.h"

namespace tutti::shared {

enum class SliceStores : uint8_t {
  library,       // memcpy()'s: of long slices the string instruction's, on many processors
  plain,         // of vectors, into the writer's caches
  non_temporal,  // past the caches
};

class SliceWriter {
 public:
  // `non_temporal`: those stores always, where calls want them, or never.
  explicit SliceWriter(Use non_temporal) : non_temporal_(non_temporal) { begin({}); }

  // A call begins.
  void begin(SliceStores wanted) {
    stores_ = non_temporal_ == Use::always ? SliceStores::non_temporal
              : non_temporal_ == Use::never && wanted == SliceStores::non_temporal
                  ? SliceStores::library
                  : wanted;
  }
  // For callers that write slices themselves: whether to use non-temporal stores. They are fenced
  // by the caller.
  bool non_temporal() const { return stores_ == SliceStores::non_temporal; }
  // As memcpy(). A peer that sees a flag posted after it sees the copy, too.
  void copy(std::byte* to, const std::byte* from, size_t bytes) {
    if (stores_ == SliceStores::plain) return plain_copy(to, from, bytes);
    copy_bytes(to, from, bytes, non_temporal());
    if (non_temporal()) stream_fence();
  }

 private:
  const Use non_temporal_;
  SliceStores stores_ = SliceStores::library;
};

}  // namespace tutti::shared
