#include "lib/shared_memory/one_hop_shape.h"

#include <algorithm>

#include "lib/base/cache.h"
#include "lib/shared_memory/flag_lines.h"
#include "transports/transport.h"

namespace tutti::shared {

size_t kept_bytes(uint32_t nranks, const Tuning& tuning) {
  return size_t(tuning.kept_share * double(tuning.last_level_cache()) / nranks);
}

size_t OneHopShape::most_element_bytes(uint32_t nranks, const Tuning& tuning) {
  return tuning.one_hop_slice_bytes / std::max(nranks - 1, 1u) / line_bytes * line_bytes;
}

OneHopShape::OneHopShape(Collective collective, uint32_t root, uint64_t count,
                         uint32_t element_size, uint32_t nranks, uint32_t self,
                         const Tuning& tuning)
    : goal(collective, nranks, root),
      element_size(element_size),
      combines(reduces(collective)),
      separate_parts(input_has_blocks(collective)),
      gets_many(output_has_blocks(collective)),
      parts(separate_parts ? nranks - 1 : 1),
      nranks_(nranks),
      self_(self),
      tuning_(&tuning) {
  set_roles();
  resize(count);
}

void OneHopShape::resize(uint64_t elements) {
  count = elements;
  part_bytes = count * element_size;
  find_own_block();
  cut();
  weigh();
}

void OneHopShape::vary(bool whole_slices, bool past) {
  whole_slices_ = whole_slices;
  past_ = past;
  cut();
  weigh();
}

void OneHopShape::set_roles() {
  const auto moves = [&](uint32_t from, uint32_t to) {
    const uint32_t block = goal.block(from, to);
    return from != to && goal.gets(to, block) && goal.combines(from, to, block);
  };
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (moves(self_, rank)) readers.push_back(rank);
    if (moves(rank, self_)) sources.push_back(rank);
  }
}

// The block that a rank copies from its input to its output: its own one where a buffer has
// several, and the first rank's result of a scan.
void OneHopShape::find_own_block() {
  const uint32_t block = goal.block(self_, self_);
  has_own_block = goal.has(self_, block) && goal.fills_output(self_) &&
                  goal.combines(self_, self_, block) && (!combines || sources.empty());
  own_from = separate_parts ? self_ * part_bytes : 0;
  own_to = gets_many ? self_ * part_bytes : 0;
}

// Even a short part is cut into several slices, so that writing and reading overlap; not where
// looking at their flags takes lines from a writer that is not ready. Slices are equally long, but
// for the last.
void OneHopShape::cut() {
  // Of one part, in a line. Not where that takes more lines than a flag and the ring: parts for
  // many readers share each.
  const size_t room =
      sizeof(slots::FlagLine::payload) / std::max(parts, 1u) / element_size * element_size;
  const uint64_t most_lines = std::min<uint64_t>({tuning_->one_hop_lines, tuning_->ring_slices,
                                                  1 + (part_bytes + line_bytes - 1) / line_bytes});
  in_line = parts == 0 || part_bytes <= most_lines * room;
  if (in_line) {
    slices = parts == 0 || part_bytes <= room ? 1 : uint32_t((part_bytes + room - 1) / room);
    slice_bytes = stride = slices == 1 ? part_bytes : room;
    return;
  }
  const size_t most =
      whole_granules(tuning_->one_hop_slice_bytes / parts / line_bytes * line_bytes, element_size);
  const size_t wanted = whole_slices_
                            ? tuning_->one_hop_slice_bytes
                            : std::clamp<size_t>(part_bytes / 4, tuning_->least_one_hop_slice_bytes,
                                                 tuning_->one_hop_slice_bytes);
  slices = uint32_t((part_bytes + std::min(wanted, most) - 1) / std::min(wanted, most));
  slice_bytes = std::min<uint64_t>(most, (count + slices - 1) / slices * element_size);
  slices = uint32_t((part_bytes + slice_bytes - 1) / slice_bytes);
  stride = (slice_bytes + line_bytes - 1) / line_bytes * line_bytes;
}

void OneHopShape::weigh() {
  const uint64_t blocks = combines ? !sources.empty() : sources.size();
  streams = (past_ || part_bytes * blocks > kept_bytes(nranks_, *tuning_)) &&
            (!combines || element_size <= tuning_->streamed_piece_bytes);
  // Of all ranks together: inputs, outputs and rings.
  const uint64_t inputs = nranks_ * part_bytes * (separate_parts ? nranks_ : 1);
  const uint64_t outputs = nranks_ * part_bytes * (gets_many ? nranks_ : 1);
  exceeds_cache =
      past_ || inputs + outputs + nranks_ * tuning_->ring_bytes > tuning_->last_level_cache();
}

}  // namespace tutti::shared
