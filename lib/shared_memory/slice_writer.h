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
  SliceWriter(Use non_temporal, const Tuning& tuning)
      : non_temporal_(non_temporal),
        write_prefetch_bytes_(tuning.write_prefetch_bytes),
        write_prefetch_taking_bytes_(tuning.write_prefetch_taking_bytes) {
    begin({});
  }

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

  // Whether a rank that has posted all it publishes in a call, so many bytes, prefetches for
  // writing where it will write in the next call like it: mostly its readers' caches have held
  // those lines since they read there, and the lines come while it waits. `takes`: it takes from
  // others, too.
  bool prefetches_next(size_t bytes, bool takes) const {
    return bytes <= (takes ? write_prefetch_taking_bytes_ : write_prefetch_bytes_) &&
           !non_temporal();
  }

 private:
  const Use non_temporal_;
  const size_t write_prefetch_bytes_, write_prefetch_taking_bytes_;
  SliceStores stores_ = SliceStores::library;
};

}  // namespace tutti::shared
