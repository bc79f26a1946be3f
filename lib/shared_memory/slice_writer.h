// Copies slices to where other cores read them. By which stores is fastest depends on the
// processor, on where the cores are and on the length (notes.md), so a call says which it wants,
// and a setting may overrule it.
#pragma once

#include "lib/reduce/copy.h"
#include "lib/slots/access.h"
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
        asked_back_bytes_(tuning.asked_back_bytes),
        asked_back_taking_bytes_(tuning.asked_back_taking_bytes) {
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

  // To be called when the last slice of a call is posted, with where the next call's would be
  // written. Its readers' caches have held those lines since they read there; so they come back
  // while this rank waits. `takes`: it takes from others in this call.
  void ask_back(const std::byte* next, size_t bytes, bool takes) const {
    const size_t most = takes ? asked_back_taking_bytes_ : asked_back_bytes_;
    if (bytes <= most && !non_temporal()) slots::ask_back(next, bytes);
  }

 private:
  const Use non_temporal_;
  const size_t asked_back_bytes_, asked_back_taking_bytes_;
  SliceStores stores_ = SliceStores::library;
};

}  // namespace tutti::shared
