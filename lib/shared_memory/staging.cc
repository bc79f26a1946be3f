#include "lib/shared_memory/staging.h"

#include <algorithm>

namespace tutti::shared {

Staging::Staging(slots::SlotLink& link, SliceWriter& writer, const Tuning& tuning)
    : flags_(link), writer_(writer), tuning_(tuning) {
  const SharedCells& cells = *link.cells();
  for (uint32_t rank = 0; rank < nranks(); ++rank) data_.push_back(cells.data(rank));
  const size_t arenas = cells.bytes() - tuning_.ring_bytes - 2 * tuning_.resident_bytes;
  result_arena_ = std::min(tuning_.rotated_bytes, arenas / 2 / line_bytes * line_bytes);
  publish_arena_ = (arenas - result_arena_) / line_bytes * line_bytes;
  const size_t fits = publish_arena_ / (least_window * (nranks() - 1));
  most_slice_bytes_ = std::min(tuning_.two_shot_slice_bytes, fits / line_bytes * line_bytes);
}

// Behind what was written last, or at the beginning of the arena. Either is clear of the block of
// the call before, because the arena has room for four (most_block_bytes()).
size_t Staging::next_block(size_t bytes) const {
  return 2 * tuning_.resident_bytes + (next_ + bytes > publish_arena_ ? 0 : next_);
}

size_t Staging::place_block(size_t bytes) {
  const size_t place = next_block(bytes);
  const size_t begin = place - 2 * tuning_.resident_bytes;
  block_ = {begin, begin + whole_lines(bytes)};
  next_ = block_.end;
  return place;
}

// Slots begin where the last call ended, so that they rotate through the arena as blocks do.
Staging::Slots Staging::place_slots(size_t slice_bytes, uint32_t slices) {
  Slots slots;
  slots.slice_bytes = slice_bytes;
  slots.stride = slice_bytes * (nranks() - 1);
  slots.published = uint32_t(
      std::max(std::min(publish_arena_, tuning_.rotated_bytes), least_window * slots.stride) /
      slots.stride);
  slots.results = uint32_t(result_arena_ / slice_bytes);
  slots.window = std::min({slots.published, slots.results, tuning_.two_shot_window});
  slots.first = uint32_t((next_ + slots.stride - 1) / slots.stride);
  if (slots.first >= slots.published) slots.first = 0;
  slots.clear = slots.published;
  const auto first_unread = uint32_t(unread_.begin / slots.stride);
  if (unread_.end != 0 && first_unread < slots.published) {
    slots.clear = (first_unread + slots.published - slots.first) % slots.published;
  }
  next_ = (slots.first + slices) % slots.published * slots.stride;
  return slots;
}

}  // namespace tutti::shared
